//! What the figures were measured on.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::debian::{Problem, run};
use crate::report::sample::ms;
use drill::Moment;
use drill::Sample;

/// The machine's kind, and what its disk takes to keep something.
pub fn kind() -> Result<String, Problem> {
    let cores = std::thread::available_parallelism()?;
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = memory.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let memory = kib.map_or(String::new(), |kib| {
        format!(", {} GiB of memory", kib >> 20)
    });
    let synced = synced(&std::env::temp_dir())?;
    Ok(format!(
        "{cores} cores ({}){memory}, {}, loopback. A write of 4 KiB and its fsync on the servers' \
         disk: median {} ms, p99 {} ms",
        std::env::consts::ARCH,
        std::env::consts::OS,
        ms(synced.median()),
        ms(synced.p99())
    ))
}

/// What else the machine has to do: the load average of the last minute, where the system tells it.
pub fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = told.split_whitespace().next();
    minute.unwrap_or("unknown").to_owned()
}

fn synced(folder: &Path) -> Result<Sample, Problem> {
    let mut file: File = tempfile::tempfile_in(folder)?;
    let mut sample = Sample::default();
    for _ in 0..200 {
        let began = Moment::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        sample.add(Moment::now().since(began));
    }
    Ok(sample)
}

/// The command as it was typed, without `--write docs` and what cargo adds.
pub fn command(bench: &str) -> String {
    let given = std::env::args().skip(1);
    let given = given.filter(|it| !["--bench", "--write", "docs"].contains(&it.as_str()));
    let given: Vec<_> = [format!("cargo bench --bench {bench} --")]
        .into_iter()
        .chain(given)
        .collect();
    given.join(" ").trim_end_matches(" --").to_owned()
}

/// The day, by the machine's clock.
pub fn today() -> Result<String, Problem> {
    let date = run(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(date.trim().to_owned())
}
