//! What this library wants to reach, beside what was measured.

use std::time::Duration;

use super::herd::{Change, Herd};
use super::roles::kib_per_role;
use super::{Measured, graceful};
use crate::report::sample::ms;
use crate::report::table::Table;
use crate::system::System;

/// Each goal with what this run had for it.
pub fn table(measured: &Measured) -> Table {
    let mut goals = Goals(Table::new(["goal", "measured", "met"]));
    goals.graceful(measured);
    goals.crash(measured);
    goals.herd(measured);
    goals.roles(measured);
    goals.0
}

struct Goals(Table);

/// A release or a crash.
type Kind = fn(&Herd) -> &Change;

impl Goals {
    /// A goal that nothing was measured for is said, not left out.
    fn add(&mut self, goal: &str, found: Option<(String, bool)>) {
        let (found, met) = match found {
            Some((found, true)) => (found, "yes"),
            Some((found, false)) => (found, "**no**"),
            None => ("not measured".to_owned(), "–"),
        };
        self.0.row([goal.to_owned(), found, met.to_owned()]);
    }

    fn times(&mut self, goal: &str, most: f64, figures: Option<(Duration, Duration)>) {
        let found = figures.map(|(ours, other)| {
            let times = ours.as_secs_f64() / other.as_secs_f64();
            (format!("{times:.2}"), times <= most)
        });
        self.add(goal, found);
    }

    fn graceful(&mut self, measured: &Measured) {
        let of = |system| Some(graceful::of(&measured.graceful, system)?.gap.median());
        let ours = of(System::Ours);
        self.times(
            "graceful, 3 candidates: at most 0.9 of etcd's time",
            0.9,
            ours.zip(of(System::Etcd)),
        );
        let from_order = |system| Some(graceful::of(&measured.quiet, system)?.whole.median());
        self.times(
            "the same from the order, after quiet seconds",
            0.9,
            from_order(System::Ours).zip(from_order(System::Etcd)),
        );
        self.times(
            "graceful, 3 candidates: at most twice that of raw NATS",
            2.0,
            ours.zip(of(System::Nats)),
        );
        let by_name = measured.by_name.as_ref().map(|line| line.gap.median());
        self.times(
            "`step_down` by name: at most 1.2 of graceful",
            1.2,
            by_name.zip(ours),
        );
    }

    fn crash(&mut self, measured: &Measured) {
        let ours = measured.crashes.iter();
        for crash in ours.filter(|crash| crash.system == System::Ours) {
            let (median, most) = (crash.took.median(), crash.took.most());
            let met = median < crash.asked && most <= crash.asked + Duration::from_millis(5);
            self.add(
                &format!(
                    "crash at ttl {:?}: at most 5 ms more, median below it",
                    crash.asked
                ),
                Some((
                    format!("{} ms at most, median {} ms", ms(most), ms(median)),
                    met,
                )),
            );
        }
        if measured.crashes.is_empty() {
            self.add("crash: at most 5 ms beyond the ttl, median below it", None);
        }
        let found = measured.will.as_ref().map(|took| {
            let (median, p99) = (took.median(), took.p99());
            let met = median <= Duration::from_millis(10) && p99 <= Duration::from_millis(50);
            (format!("{} ms, {} ms", ms(median), ms(p99)), met)
        });
        self.add(
            "SIGKILL with a last will, ttl 15 s: median at most 10 ms, p99 at most 50 ms",
            found,
        );
    }

    fn herd(&mut self, measured: &Measured) {
        let most = measured.herds.iter().map(|herd| herd.candidates).max();
        let of = |system| {
            let mut herds = measured.herds.iter();
            herds.find(|herd: &&Herd| herd.system == system && Some(herd.candidates) == most)
        };
        let many = most.unwrap_or(500);
        let (ours, etcd) = (of(System::Ours), of(System::Etcd));
        let kinds: [(&str, Kind); 2] = [
            ("release", |herd| &herd.release),
            ("crash", |herd| &herd.crash),
        ];
        for (name, change) in kinds {
            let writes = ours.and_then(|herd| change(herd).most_writes());
            self.add(
                &format!("{name} among {many}: at most 3 writes"),
                writes.map(|writes| (writes.to_string(), writes <= 3)),
            );
            let median = |herd: &Herd| change(herd).took.median();
            self.times(
                &format!("{name} among {many}: no longer than etcd"),
                1.0,
                ours.map(median).zip(etcd.map(median)),
            );
        }
    }

    fn roles(&mut self, measured: &Measured) {
        let price = measured.prices.iter().find(|price| price.roles == 1_000);
        self.add(
            "1,000 roles: at most 4 % of a core in the leader",
            price.map(|price| {
                let percent = price.leader_cpu * 100.0;
                (format!("{percent:.1} %"), percent <= 4.0)
            }),
        );
        let kib = kib_per_role(&measured.prices, 1_000, |price| price.leader_memory);
        self.add(
            "1,000 roles: at most 20 KiB per role in the leader",
            kib.map(|kib| (format!("{kib:.1} KiB"), kib <= 20.0)),
        );
        self.add(
            "1,000 roles: at most 0.1 requests per role and second beside heartbeats",
            price.map(|price| {
                let each = price.beside / f64::from(price.roles);
                (format!("{each:.3}"), each <= 0.1)
            }),
        );
    }
}
