//! What fits on screens of different sizes.

use super::*;

#[test]
fn roles_candidates_and_changes_fit_on_the_smallest_common_terminal() {
    let mut state = fleet();
    state.facts.changes = vec![(at(2), "scheduler: node-2 claimed".into())];
    state.facts.now_ms = at(5);
    let scheduler = state.facts.roles.get_mut("scheduler").expect("it");
    scheduler.since = Some(Time(String::new()));
    let expected = "\
\x20nats-elect top  bucket leaders at 127.0.0.1:4222                  01:00:05 UTC
 view current   2 roles   2 instances answer
── Roles ───────────────────────────────────────────────────────────────────────
  ROLE       LEADER                           LEASE      FOR HEARTBEAT     TOKEN
▶ metrics    node-1    █████████▌░░░░░░░░░       5s   ≥1m 5s     1.2ms …0000002a
  scheduler  node-2    ███████████████████      10s    1m 5s     1.2ms …0000002a
  metrics: led by node-1 for ≥1m 5s, token 0000000000000001000000000000002a
── Candidates of metrics ───────────────────────────────────────────────────────
  INSTANCE             STATE               PRIORITY HEALTH    NATS
  node-1               ● leader            10       healthy   connected
  node-2               ○ follower          10       healthy   connected
── Changes latest first ────────────────────────────────────────────────────────
  01:00:02  scheduler: node-2 claimed










  q quit  ↑↓ select  / filter  ? help";
    assert_eq!(shown(&state), expected);
}

#[test]
fn a_group_without_members_is_shown_with_its_units_that_have_no_owner() {
    let mut state = fleet();
    let group = |unowned, members| GroupState {
        units: 12,
        unowned,
        members,
        understood: true,
        ..GroupState::default()
    };
    let mut answers = answers();
    let busy = json!({ "busy": { "units": 1, "still_running": 2, "takes_units": true } });
    answers[0].groups = serde_json::from_value(busy).expect("a group");
    state.facts.reports = Some(Ok(answers));
    state.facts.groups = BTreeMap::from([
        ("busy".to_owned(), group(0, 1)),
        ("left".to_owned(), group(12, 0)),
    ]);
    let screen = shown_as(&state, PLAIN, 110, 40);
    let row = |begin: &str| {
        screen
            .lines()
            .position(|it| it.trim_start().starts_with(begin))
    };
    let (left, busy) = (row("left").expect("a row"), row("busy").expect("a row"));
    assert!(left < busy, "what is wrong comes first: {screen}");
    for (row, words) in [
        (left, "12 of 12 units have no owner; no member is there"),
        (busy, "2 handlers still run of units that were given away"),
    ] {
        assert!(
            screen.lines().nth(row).expect("a row").contains(words),
            "{screen}"
        );
    }
    for height in 1..60 {
        let screen = shown_as(&state, PLAIN, 80, height);
        assert_eq!(screen.split('\n').count(), usize::from(height), "{screen}");
        let says = screen.contains("units without an owner: 12");
        assert!(says || height < 3, "{screen}");
        let shows = screen.contains("busy") || screen.contains("out of sight: 1");
        assert!(shows || height < 15, "{screen}");
    }
}

#[test]
fn no_size_is_too_small_and_none_too_large() {
    for state in [fleet(), many()] {
        for width in [1, 2, 7, 20, 40, 79, 300] {
            for height in [1, 2, 5, 9, 10, 11, 13, 16, 100] {
                let _ = shown_as(&state, PLAIN, width, height);
            }
        }
    }
}

#[test]
fn on_a_narrow_screen_a_number_is_whole_or_absent() {
    let mut state = fleet();
    let network = ("network-of-the-east-side".to_owned(), led(node(3), 754));
    state.facts.roles.extend([network]);
    let row = |width: u16, role: &str| {
        let screen = shown_as(&state, PLAIN, width, 24);
        let row = screen.lines().skip(4).find(|line| line.contains(role));
        let row: Vec<_> = row.expect("a row").split_whitespace().collect();
        row.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (role, lease) in [("scheduler", "10s"), ("metrics", "5s")] {
        let role = &role[..4];
        let whole = row(120, role);
        for width in 21..120 {
            let cells = row(width, role);
            let cut = |it: &&String| it.ends_with('…') || it.contains('█');
            let strange = cells.iter().find(|it| !whole.contains(it) && !cut(it));
            assert_eq!(strange, None, "{width}: {cells:?}");
            assert!(width < 25 || cells.iter().any(|it| it == lease), "{width}");
        }
    }
    assert!(row(41, "netw").ends_with(&["12m".into(), "34s".into()]));
    let forty = shown_as(&fleet(), PLAIN, 40, 24);
    let sixty = shown_as(&fleet(), PLAIN, 60, 24);
    assert!(forty.contains("LEADER       LEASE      FOR"), "{forty}");
    assert!(
        sixty.contains("LEADER       LEASE      FOR HEARTBEAT     TOKEN"),
        "{sixty}"
    );
    for screen in [forty, sixty] {
        let keys = screen.lines().last().expect("a line");
        assert!(keys.starts_with("  q quit") && keys.ends_with("  ? help"));
        assert!(keys.contains("↑↓ select"), "{keys}");
        assert!(screen.contains("2 instances answer"), "{screen}");
    }
}

#[test]
fn a_high_screen_has_the_candidates_above_the_changes() {
    let mut state = fleet();
    state.facts.changes = vec![(at(1), "metrics: node-1 leads, gap ≤ 3.2s".into())];
    for (width, height) in [(100, 50), (200, 50), (60, 24)] {
        let screen = shown_as(&state, PLAIN, width, height);
        let at = |text: &str| {
            let mut lines = screen.lines();
            let at = lines.position(|line| line.contains(text));
            at.unwrap_or_else(|| panic!("{text}: {screen}"))
        };
        assert!(at("── Roles") < at("── Candidates of metrics"));
        assert!(at("── Candidates of metrics") < at("── Changes"));
        assert!(at("── Changes") < at("gap ≤ 3.2s"));
        assert!(
            screen
                .lines()
                .all(|line| line.chars().count() <= width.into()),
            "{screen}"
        );
    }
}

#[test]
fn candidates_that_have_no_room_are_counted() {
    let mut state = fleet();
    let all = (0..40).map(|n| answer(n, [("metrics", says(RoleState::Follower))]));
    state.facts.reports = Some(Ok(all.collect()));
    let screen = shown_as(&state, PLAIN, 200, 50);
    let rows = screen.lines().filter(|line| line.contains("○ follower"));
    let title = format!("{} of 40 visible", rows.count());
    assert!(screen.contains(&title), "{title}: {screen}");
}

#[test]
fn a_long_text_from_outside_is_cut_and_moves_nothing() {
    let mut state = fleet();
    state.facts.changes = vec![(at(1), format!("metrics: {}", "宽".repeat(4000)))];
    for (width, height) in [(80, 24), (200, 50)] {
        let screen = shown_as(&state, PLAIN, width, height);
        assert!(
            screen.contains("宽…") || screen.contains("宽 …"),
            "{screen}"
        );
    }
}
