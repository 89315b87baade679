//! Limits of the system, in words: its errors name no limit.

use std::io;

/// Returns the text of an error, and where to look if a limit of the system may be its cause.
#[must_use]
pub fn in_words(error: &io::Error) -> String {
    // The same numbers on all systems that have them.
    let too_many_files = cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24));
    let limit = match error.kind() {
        io::ErrorKind::WouldBlock => {
            "no more processes or threads are allowed: see `ulimit -u`, `TasksMax` of the systemd unit, `pids.max` of the cgroup"
        }
        io::ErrorKind::OutOfMemory => {
            "there is no memory left: see `memory.max` of the cgroup, `ulimit -v`"
        }
        _ if too_many_files => {
            "too many files and sockets are open: see `ulimit -n`, `LimitNOFILE` of the systemd unit"
        }
        _ => return error.to_string(),
    };
    format!("{error}: {limit}")
}

/// Adds what could not be done to an error.
pub fn failed(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {}", in_words(&error)))
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn an_error_for_want_of_something_names_the_limit_and_what_could_not_be_done() {
        for (number, limit) in [
            (Errno::AGAIN, "pids.max"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::NFILE, "ulimit -n"),
            (Errno::NOMEM, "memory.max"),
        ] {
            let error = io::Error::from(number);
            let told = failed("no thread for logs")(error).to_string();
            assert!(told.starts_with("no thread for logs: "), "{told}");
            assert!(told.contains(limit) && told.contains("os error"), "{told}");
        }
        let other = io::Error::from(Errno::NOENT);
        assert_eq!(in_words(&other), other.to_string());
    }
}
