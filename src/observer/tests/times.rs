//! Times by the clock of the server.

use super::*;

/// The time of the server's clock so many milliseconds after the beginning of a stage.
fn server(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + Duration::from_millis(ms)
}

/// What one observer tells of when it was so, and how long it has been.
fn dated(
    stage: &Stage,
) -> (
    Standing,
    Option<SystemTime>,
    Option<Duration>,
    Option<Duration>,
) {
    let seen = stage.observed();
    (seen.standing, seen.since_at, seen.unled, seen.ttl)
}

#[test]
fn an_observer_that_begins_amid_an_outage_tells_what_one_tells_that_saw_it_begin() {
    const OUTAGE: u64 = 14 * 60_000;
    let freed = || marker(12, Content::Release(Release::default()));
    for is_freed in [false, true] {
        let mut first = Stage::watching();
        first.tracked_roles.server_says(server(0), first.now());
        let begun = first.ms;
        let put = |stage: &mut Stage, entry: Entry, written: u64| {
            let now = stage.now();
            let written = Some(server(written));
            stage.tracked_roles.role(&role("r"), entry, written, now);
        };
        put(&mut first, record(1, 10), 0);
        let fenced = |stage: &mut Stage, now| {
            let mut fence = fence(1, 11);
            if let Some(record) = &mut fence.record {
                record.ttl = Some(Duration::from_millis(LEASE));
            }
            stage
                .tracked_roles
                .fence(&role("r"), fence, Some(server(1)), now);
        };
        first.ms += 1;
        let now = first.now();
        fenced(&mut first, now);
        let led = first.observed();
        assert_eq!((led.since_at, led.unled), (Some(server(1)), None));
        if is_freed {
            put(&mut first, freed(), 1);
        }
        for _ in 0..OUTAGE / LEASE {
            for name in first.wait(LEASE) {
                let found = found(Some(record(1, 10)));
                let found = Some((found, Written::default()));
                first.tracked_roles.looked(&name, found, first.now());
            }
        }
        // By its own clock, which is another one.
        let mut later = Stage::new(None);
        later.begin(EPOCH);
        let now = later.now();
        later
            .tracked_roles
            .server_says(server(first.ms - begun), now);
        fenced(&mut later, now);
        let stands = if is_freed { freed() } else { record(1, 10) };
        put(&mut later, stands, u64::from(is_freed));
        later.tracked_roles.caught_up(now);
        // A record that stands there says nothing of its leader's life; how old it is is told at once.
        assert_eq!(dated(&later).2, dated(&first).2);
        for stage in [&mut first, &mut later] {
            for name in stage.wait(LEASE) {
                let found = found(Some(record(1, 10)));
                let found = Some((found, Written::default()));
                stage.tracked_roles.looked(&name, found, stage.now());
            }
        }
        assert_eq!(dated(&later), dated(&first));
        let ended = if is_freed { 1 } else { LEASE };
        let unled = Duration::from_millis(first.ms - begun - ended);
        let (_, since_at, told, ttl) = dated(&later);
        assert_eq!((since_at, told), (Some(server(ended)), Some(unled)));
        assert_eq!(ttl, Some(Duration::from_millis(LEASE)));
    }
}

#[test]
fn a_leader_that_is_found_has_led_since_its_fence_record_was_stored() {
    let mut stage = Stage::new(None);
    stage.begin(EPOCH);
    let now = stage.now();
    stage.tracked_roles.server_says(server(60_000), now);
    let r = role("r");
    stage
        .tracked_roles
        .role(&r, record(1, 20), Some(server(59_900)), now);
    stage
        .tracked_roles
        .fence(&r, fence(1, 11), Some(server(5)), now);
    stage.tracked_roles.caught_up(now);
    let seen = stage.observed();
    assert_eq!(seen.since_at, Some(server(5)));
    assert_eq!(seen.since, Some(Duration::from_millis(59_995)));
    assert_eq!(seen.unled, Some(Duration::ZERO), "its lease has not passed");
    assert!(
        !seen.confirmed,
        "no clock of another machine proves that it lives"
    );
}

#[test]
fn no_age_is_negative_whatever_the_servers_clock_says() {
    let mut stage = Stage::watching();
    stage.tracked_roles.server_says(server(0), stage.now());
    let r = role("r");
    let now = stage.now();
    // From a server whose clock is an hour ahead, and then from one that is an hour behind.
    stage
        .tracked_roles
        .role(&r, record(1, 10), Some(server(3_600_000)), now);
    stage
        .tracked_roles
        .fence(&r, fence(1, 11), Some(server(3_600_000)), now);
    assert_eq!(stage.observed().since, Some(Duration::ZERO));
    stage.tracked_roles.server_says(server(0), stage.now());
    assert_eq!(stage.observed().since, Some(Duration::ZERO));
    let freed = marker(12, Content::Release(Release::default()));
    stage
        .tracked_roles
        .role(&r, freed, Some(server(3_600_000)), stage.now());
    assert_eq!(stage.observed().unled, Some(Duration::ZERO));
    stage.wait(10);
    assert_eq!(stage.observed().unled, Some(Duration::from_millis(10)));
}
