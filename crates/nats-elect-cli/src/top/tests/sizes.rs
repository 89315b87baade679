//! What fits on screens of different sizes.

use super::*;

#[test]
fn roles_instances_and_changes_fit_on_the_smallest_common_terminal() {
    let mut state = fleet();
    let facts = state.facts_mut();
    facts.happened(at(2), &happened("scheduler", Some(node(2)), true));
    facts.past(at(3), Ok(Vec::new()), true);
    facts.sight(at(5), facts.roles.clone(), None);
    let expected = "\
\x20nats-elect top  bucket leaders at 127.0.0.1:4222                  01:00:05 UTC
 view current   2 roles   2 instances answer
-- Roles by name; changes of the last 24h --------------------------------------
  ROLE       LEADER        TOKEN LEASE                CHANGES      FOR HEARTBEAT
> metrics    node-1    ~0000002a ######...... 5s            0   >1m 5s     1.2ms
  scheduler  node-2    ~0000002a ############ 10s           1    1m 5s     1.2ms
  metrics: led by node-1 for >1m 5s, token 0000000000000001000000000000002a
-- Instances -------------------------------------------------------------------
             node-1           node-2
  CONNECTION connected        connected
> metrics    * leader         o follower
  scheduler  o follower       * leader
-- Changes latest first --------------------------------------------------------
  01:00:02  scheduler: node-2 leads









  q quit  jk select  hl instances  / filter  s sort  f freeze  ? help";
    assert_eq!(shown(&state), expected);
}

#[test]
fn groups_have_a_row_with_the_units_of_each_instance() {
    let mut state = fleet();
    let facts = state.facts_mut();
    let mut answers = answers();
    let parts = [(128, Some(34_000), true), (7, None, false)];
    for ((_, report), (units, load, takes_units)) in answers.iter_mut().zip(parts) {
        let report = report.as_mut().expect("a report");
        let owns = Owns {
            units,
            still_running: 0,
            load,
            takes_units,
        };
        report.groups = BTreeMap::from([("partitions".to_owned(), owns)]);
    }
    answers.push(answer(node(3), []));
    facts.answers(at(6), Ok(answers));
    let screen = shown(&state);
    let row = screen.lines().find(|line| line.contains("partitions"));
    let cells: Vec<_> = row.expect("a row").split_whitespace().collect();
    let expected = [
        "partitions",
        "128,",
        "load",
        "34k",
        "7",
        "units,",
        "shut",
        ".",
    ];
    assert_eq!(cells, expected, "{screen}");
    for height in 1..60 {
        let screen = shown_as(&state, PLAIN, 80, height);
        assert_eq!(screen.split('\n').count(), usize::from(height), "{screen}");
        let shows = screen.contains("partitions");
        assert!(
            shows || screen.contains("groups out of sight: 1") || height < 14,
            "{screen}"
        );
    }
}

#[test]
fn a_group_without_members_is_shown_with_its_units_that_have_no_owner() {
    let mut state = fleet();
    let group = |unowned, members| Group {
        units: 12,
        unowned,
        members,
        understood: true,
        ..Group::default()
    };
    let facts = state.facts_mut();
    let mut answers = answers();
    let report = answers[0].1.as_mut().expect("a report");
    let owns = Owns {
        units: 1,
        still_running: 2,
        load: None,
        takes_units: true,
    };
    report.groups = BTreeMap::from([("busy".to_owned(), owns)]);
    facts.answers(at(6), Ok(answers));
    facts.seen_groups = BTreeMap::from([
        ("busy".to_owned(), group(0, 1)),
        ("left".to_owned(), group(12, 0)),
    ]);
    let screen = shown_as(&state, PLAIN, 80, 40);
    let after = |begin: &str| {
        let mut lines = screen.lines().skip_while(|it| !it.contains(begin));
        let (row, next) = (lines.next().expect("a row"), lines.next());
        (row.to_owned(), next.unwrap_or_default().to_owned())
    };
    let trouble = "    12 of 12 units have no owner; no member is there";
    assert_eq!(after("left").1, trouble, "{screen}");
    let (row, next) = after("  busy");
    assert!(
        row.contains("1 unit ") && !next.contains("owner"),
        "{screen}"
    );
    let (left, busy) = (screen.find("left"), screen.find("busy"));
    assert!(left < busy, "what is wrong comes first: {screen}");
    assert!(screen.contains("units without an owner: 12"), "{screen}");
    for height in 1..60 {
        let screen = shown_as(&state, PLAIN, 80, height);
        assert_eq!(screen.split('\n').count(), usize::from(height), "{screen}");
        let says = screen.contains("units without an owner: 12");
        assert!(says || height < 3, "{screen}");
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
    let facts = state.facts_mut();
    let mut roles = facts.roles.clone();
    roles.insert("network-of-the-east-side".into(), led(node(3), 754));
    facts.sight(at(5), roles, None);
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
            let cut = |it: &&String| it.ends_with('~') || it.contains('#');
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
        sixty.contains("LEADER       LEASE CHANGES      FOR HEARTBEAT"),
        "{sixty}"
    );
    for screen in [forty, sixty] {
        let keys = screen.lines().last().expect("a line");
        assert!(keys.starts_with("  q quit") && keys.ends_with("  ? help"));
        assert!(keys.contains("jk select"), "{keys}");
        assert!(screen.contains("2 instances answer"), "{screen}");
    }
}

/// A fleet of three, of which one is cut off; one role changed hands.
fn with_a_past() -> State {
    let mut state = fleet();
    let facts = state.facts_mut();
    let silent = (node(3), Err("no answer".to_owned()));
    let mut all = answers();
    all.push(silent);
    facts.answers(at(2), Ok(all));
    facts.past(at(3), Ok(told()), true);
    state
}

/// An hour ago node-2 crashed, and node-1 took a role over.
fn told() -> Vec<Told> {
    let one = |ago: u64, sequence, began: Option<Who>, text: &str| Told {
        role: "metrics".into(),
        at: at(0).wall - Duration::from_secs(ago),
        token: FencingToken { epoch: 1, sequence },
        began,
        text: format!("metrics: {text}"),
    };
    vec![
        one(3580, 7, Some(node(2)), "node-2 leads: no earlier leader"),
        one(
            3570,
            8,
            Some(node(1)),
            "node-1 leads: lease of node-2 ran out, gap ≤ 3.2s",
        ),
    ]
}

#[test]
fn a_wide_and_high_screen_has_candidates_beside_changes() {
    let state = with_a_past();
    let screen = shown_as(&state, PLAIN, 200, 50);
    let lines: Vec<_> = screen.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("-- Candidates of metrics"));
    let at = at.expect("candidates");
    assert!(lines[at].contains("-- Changes latest first"), "{screen}");
    let heads: Vec<_> = lines[at + 1][..100].split_whitespace().collect();
    let expected = [
        "INSTANCE", "STATE", "PRIORITY", "HEALTH", "NATS", "UP", "VERSION",
    ];
    assert_eq!(heads, expected);
    let (left, right) = lines[at + 2].split_at(100);
    let row: Vec<_> = left.split_whitespace().collect();
    assert_eq!(
        row,
        [
            "node-1",
            "*",
            "leader",
            "10",
            "healthy",
            "connected",
            "2h",
            "3m",
            "0.1.0"
        ]
    );
    assert!(right.starts_with("   00:00:20  metrics: "), "{screen}");
    let latest = &lines[at + 1][100..];
    assert!(latest.starts_with("   00:00:30  metrics: "), "{screen}");
    assert!(
        latest.ends_with("lease of node-2 ran out, gap <=3.2s"),
        "{screen}"
    );
    assert!(screen.is_ascii(), "{screen}");
    assert!(
        lines.len() == 50 && lines.iter().all(|line| line.len() <= 200),
        "{screen}"
    );
}

#[test]
fn a_high_screen_has_the_candidates_above_the_changes() {
    let state = with_a_past();
    let screen = shown_as(&state, PLAIN, 100, 50);
    let at = |text: &str| {
        let mut lines = screen.lines();
        lines
            .position(|line| line.contains(text))
            .unwrap_or_else(|| panic!("{text}: {screen}"))
    };
    assert!(at("-- Instances") < at("-- Candidates of metrics"));
    assert!(at("-- Candidates of metrics") < at("-- Changes"));
    assert!(at("-- Changes") < at("gap <=3.2s"));
}

#[test]
fn a_small_screen_has_the_latest_changes_and_what_they_are_counted_from() {
    let state = with_a_past();
    let screen = shown_as(&state, PLAIN, 60, 15);
    for expected in [
        "changes of the last 24h",
        "00:00:30  metrics: node-1 leads",
        "q quit",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    assert!(screen.lines().all(|line| line.len() <= 60), "{screen}");
    assert!(!screen.contains("Candidates"), "{screen}");
}

#[test]
fn candidates_that_have_no_room_are_counted() {
    let mut state = fleet();
    let all = (0..40).map(|n| answer(node(n), [("metrics", says(RoleState::Follower))]));
    state.facts_mut().answers(at(2), Ok(all.collect()));
    let screen = shown_as(&state, PLAIN, 200, 50);
    assert!(screen.contains("visible"), "{screen}");
    let rows = screen
        .lines()
        .filter(|line| line.contains("o follower       10"));
    let title = format!("{} of 40 visible", rows.count());
    assert!(screen.contains(&title), "{title}: {screen}");
}

#[test]
fn a_long_text_from_outside_is_cut_and_moves_nothing() {
    let mut state = fleet();
    let mut long = told();
    long[1].text = format!("metrics: {}", "宽".repeat(4000));
    state.facts_mut().past(at(3), Ok(long), true);
    for (width, height) in [(80, 24), (200, 50)] {
        let screen = shown_as(&state, PLAIN, width, height);
        assert!(
            screen.contains("宽~") || screen.contains("宽 ~"),
            "{screen}"
        );
    }
}
