//! What the screen shows, in words.

mod past;
mod sizes;

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect::admin::InstanceReport;
use nats_elect::{FencingToken, RoleState, Standing};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use uuid::Uuid;

use super::facts::Facts;
use super::look::Look;
use super::state::State;
use super::view;
use crate::fleet::{GroupState, Leader, Role, Seconds, Time, Token};

const PLAIN: Look = Look { colours: false };

fn at(seconds: u64) -> u64 {
    (10 * 24 * 3600 + 3600 + seconds) * 1000
}

fn node(number: u8) -> Leader {
    Leader {
        instance_id: format!("node-{number}"),
        incarnation: Some(Uuid::from_u128(number.into())),
        priority: 0.into(),
        meta: BTreeMap::new(),
        signer: None,
    }
}

fn led(leader: Leader, remaining: u64) -> Role {
    let seconds = |seconds| Some(Seconds(Duration::from_secs(seconds)));
    Role {
        role: String::new(),
        standing: Standing::Led,
        leader: Some(leader),
        confirmed: true,
        since: None,
        ttl_seconds: seconds(10),
        age_seconds: None,
        remaining_seconds: seconds(remaining),
        fencing_token: Some(Token(FencingToken {
            epoch: 1,
            sequence: 42,
        })),
        revision: None,
        readable: true,
        distrust: None,
        last_leader: None,
        led_for: Some(Duration::from_secs(65)),
    }
}

fn free(standing: Standing) -> Role {
    Role {
        standing,
        leader: None,
        remaining_seconds: None,
        led_for: None,
        ..led(node(1), 0)
    }
}

fn says(state: RoleState) -> Value {
    let leads = state == RoleState::Leader;
    json!({
        "state": state, "is_leader": leads, "priority": 10, "healthy": true, "connection": "connected",
        "heartbeat_took_seconds": leads.then_some(0.00124),
    })
}

fn with(mut says: Value, field: &str, value: Value) -> Value {
    says[field] = value;
    says
}

fn answer<const N: usize>(number: u8, roles: [(&str, Value); N]) -> InstanceReport {
    let roles: BTreeMap<_, _> = roles.into();
    let report = json!({
        "type": "io.nats-elect.admin.v1.status", "instance_id": format!("node-{number}"),
        "incarnation": Uuid::from_u128(number.into()), "version": "0.1.0", "bucket": "leaders",
        "uptime_seconds": 7384, "roles": roles,
    });
    serde_json::from_value(report).expect("a report")
}

fn sights<const N: usize>(roles: [(&str, Role); N]) -> BTreeMap<String, Role> {
    BTreeMap::from(roles.map(|(name, seen)| (name.to_owned(), seen)))
}

/// Two instances, each of which leads one of two roles.
fn fleet() -> State {
    let mut state = State::default();
    state.facts.now_ms = at(0);
    state.facts.bucket = "leaders".into();
    state.facts.server = "127.0.0.1:4222".into();
    let (metrics, scheduler) = (led(node(1), 5), led(node(2), 10));
    state.facts.roles = sights([("metrics", metrics), ("scheduler", scheduler)]);
    state.facts.reports = Some(Ok(answers()));
    state
}

fn answers() -> Vec<InstanceReport> {
    let leader = || says(RoleState::Leader);
    let follower = || says(RoleState::Follower);
    vec![
        answer(1, [("metrics", leader()), ("scheduler", follower())]),
        answer(2, [("metrics", follower()), ("scheduler", leader())]),
    ]
}

fn shown_as(state: &State, look: Look, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| view::draw(frame, state, look))
        .expect("a picture");
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(width.into()).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn shown(state: &State) -> String {
    shown_as(state, PLAIN, 80, 24)
}

fn press(state: &mut State, codes: impl IntoIterator<Item = KeyCode>) -> bool {
    codes
        .into_iter()
        .all(|code| state.press(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn typed(text: &str) -> impl Iterator<Item = KeyCode> + use<'_> {
    text.chars().map(KeyCode::Char)
}

#[test]
fn a_leader_that_was_not_seen_alive_is_doubtful_unless_it_says_itself_that_it_leads() {
    let mut state = fleet();
    for (number, doubted) in [(3, true), (1, false)] {
        let mut seen = led(node(number), 5);
        seen.confirmed = false;
        state.facts.roles = sights([("metrics", seen)]);
        let screen = shown(&state);
        let doubt = format!("node-{number}?");
        assert_eq!(screen.contains(&doubt), doubted, "{screen}");
    }
}

#[test]
fn each_state_of_an_instance_has_its_sign_and_word() {
    let follower = || says(RoleState::Follower);
    for (says, word) in [
        (says(RoleState::Leader), "● leader"),
        (follower(), "○ follower"),
        (says(RoleState::Candidate), "◌ candidate"),
        (says(RoleState::Draining), "◐ draining"),
        (says(RoleState::Demoted), "◐ demoted"),
        (with(follower(), "state", "dreaming".into()), "? not known"),
        (
            with(follower(), "paused", true.into()),
            "= follower, paused",
        ),
        (
            with(follower(), "failing_seconds", 9.into()),
            "✗ follower, failing",
        ),
        (with(follower(), "healthy", false.into()), "✗ follower"),
        (
            with(says(RoleState::Leader), "paused", true.into()),
            "= leader, paused",
        ),
    ] {
        let mut state = fleet();
        state.facts.reports = Some(Ok(vec![answer(3, [("metrics", says)])]));
        let screen = shown(&state);
        assert!(screen.contains(word), "{word}: {screen}");
    }
}

#[test]
fn gaps_in_what_is_known_of_instances_and_of_the_bucket_are_told() {
    type Change = fn(&mut Facts);
    let changes: [(Change, &[&str]); 3] = [
        (|facts| facts.silent = 1, &["2 instances answer, 1 silent"]),
        (
            |facts| facts.reports = Some(Err("this user may not ask".into())),
            &[
                "no reports from instances: this user may not ask; showing only the bucket",
                "no instance reports the role",
                "5s",
                "…0000002a",
            ],
        ),
        (
            |facts| facts.stale = Some((Duration::from_secs(12), "not connected".into())),
            &["view STALE for 12s: not connected"],
        ),
    ];
    for (change, words) in changes {
        let mut state = fleet();
        change(&mut state.facts);
        let screen = shown_as(&state, PLAIN, 110, 24);
        for expected in words {
            assert!(screen.contains(expected), "{expected}: {screen}");
        }
        let is_current = screen.contains("view current");
        assert_eq!(is_current, state.facts.stale.is_none(), "{screen}");
    }
}

/// So many roles that they don't fit.
fn many() -> State {
    let mut state = fleet();
    state.facts.reports = None;
    let roles = (0..100).map(|n| {
        let seen = led(node(n % 7), 1 + u64::from(n % 10));
        (format!("role-{n:03}"), seen)
    });
    state.facts.roles = roles.collect();
    state
}

#[test]
fn many_roles_scroll_with_the_selection() {
    let mut state = many();
    let screen = shown(&state);
    assert!(screen.contains("▶ role-000") && !screen.contains("role-050"));
    assert!(screen.contains("8 of 100 visible"), "{screen}");
    assert!(press(&mut state, [KeyCode::Down, KeyCode::Char('j')]));
    assert!(shown(&state).contains("▶ role-002"));
    for _ in 0..5 {
        press(&mut state, [KeyCode::PageDown]);
    }
    assert!(shown(&state).contains("▶ role-052"));
    press(
        &mut state,
        [
            KeyCode::End,
            KeyCode::Char('k'),
            KeyCode::Down,
            KeyCode::Down,
        ],
    );
    let screen = shown(&state);
    assert!(
        screen.contains("▶ role-099") && screen.contains("role-095"),
        "{screen}"
    );
    press(&mut state, [KeyCode::Home, KeyCode::Up]);
    assert!(shown(&state).contains("▶ role-000"));
}

#[test]
fn a_filter_shows_the_roles_whose_name_or_leader_has_it() {
    let mut state = many();
    press(&mut state, typed("/role-04q"));
    assert!(state.typing, "q is part of the filter while it is typed");
    assert_eq!(state.roles(), [] as [&str; 0]);
    assert!(shown(&state).contains("filter: role-04q"));
    press(&mut state, [KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(state.roles().len(), 10);
    assert!(shown(&state).contains("with \"role-04\""));
    press(&mut state, [KeyCode::Esc]);
    assert_eq!(state.roles().len(), 100);
    press(&mut state, typed("/NODE-6"));
    assert_eq!(state.roles().len(), 14);
}

#[test]
fn roles_that_are_not_known_to_be_led_come_first() {
    let mut state = fleet();
    let mut doubtful = led(node(1), 9);
    doubtful.confirmed = false;
    state.facts.roles = sights([
        ("a", led(node(2), 3)),
        ("b", doubtful),
        ("c", free(Standing::Released)),
        ("d", free(Standing::Unknown)),
        ("e", led(node(2), 0)),
    ]);
    assert_eq!(state.roles(), ["c", "b", "d", "e", "a"]);
}

#[test]
fn help_tells_the_keys_and_goes_away() {
    let mut state = fleet();
    press(&mut state, typed("?"));
    let screen = shown(&state);
    assert!(screen.contains("not known to be led"), "{screen}");
    assert!(
        screen.contains("proves that an instance may act"),
        "{screen}"
    );
    press(&mut state, typed("?"));
    assert!(shown(&state).contains("Candidates of metrics"));
}

#[test]
fn q_and_control_c_end_it_also_while_a_filter_is_typed() {
    let mut state = fleet();
    assert!(!press(&mut state, typed("q")));
    press(&mut state, typed("/"));
    let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(!state.press(key));
}

#[test]
fn text_from_outside_can_not_steer_the_terminal() {
    let mut state = fleet();
    let mut odd = node(1);
    odd.instance_id = "a\u{1b}[2Jb".into();
    state.facts.roles = sights([("metrics", led(odd, 5))]);
    assert!(!shown(&state).contains('\u{1b}'));
}
