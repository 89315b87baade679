//! What the screen shows, in words.

mod past;
mod sizes;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use nats_elect::{ConnectionStatus, FencingToken, RoleState, Standing};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uuid::Uuid;

use super::facts::{Answer, Cell, Facts, Happened, Now, Report, Says, Seen, Told, Who};
use super::groups::{Group, Owns};
use super::look::Look;
use super::state::State;
use super::{keys, view};

const PLAIN: Look = Look {
    colours: false,
    ascii: true,
};

fn at(seconds: u64) -> Now {
    Now {
        since_start: Duration::from_secs(seconds),
        wall: SystemTime::UNIX_EPOCH + Duration::from_secs(10 * 24 * 3600 + 3600 + seconds),
    }
}

fn node(number: u8) -> Who {
    Who {
        id: format!("node-{number}"),
        incarnation: Some(Uuid::from_u128(number.into())),
    }
}

fn led(leader: Who, remaining: u64) -> Seen {
    Seen {
        standing: Standing::Led,
        leader: Some(leader),
        confirmed: true,
        since: Some(Duration::from_secs(65)),
        token: Some(FencingToken {
            epoch: 1,
            sequence: 42,
        }),
        ttl: Some(Duration::from_secs(10)),
        remaining: Some(Duration::from_secs(remaining)),
    }
}

fn says(state: RoleState) -> Says {
    let leads = state == RoleState::Leader;
    Says {
        state: Some(state),
        leads,
        priority: 10,
        paused: false,
        failing: false,
        healthy: Some(true),
        connection: Some(ConnectionStatus::Connected),
        heartbeat_took: leads.then_some(Duration::from_micros(1240)),
    }
}

fn answer<const N: usize>(who: Who, roles: [(&str, Says); N]) -> Answer {
    let roles = roles.map(|(name, says)| (name.to_owned(), says));
    let report = Report {
        version: "0.1.0".into(),
        uptime: Duration::from_secs(7384),
        roles: BTreeMap::from(roles),
        groups: BTreeMap::new(),
    };
    (who, Ok(report))
}

fn sights<const N: usize>(roles: [(&str, Seen); N]) -> BTreeMap<String, Seen> {
    BTreeMap::from(roles.map(|(name, seen)| (name.to_owned(), seen)))
}

fn happened(role: &str, to: Option<Who>, claimed: bool) -> Happened {
    let text = to
        .as_ref()
        .map_or("nobody leads".to_owned(), |to| format!("{} leads", to.id));
    Happened {
        role: role.into(),
        from: None,
        to,
        claimed,
        freed: false,
        silence: None,
        text,
    }
}

/// Two instances, each of which leads one of two roles.
fn fleet() -> State {
    let mut facts = Facts::new(at(0), "leaders".into(), "127.0.0.1:4222".into());
    facts.sight(
        at(1),
        sights([
            ("metrics", led(node(1), 5)),
            ("scheduler", led(node(2), 10)),
        ]),
        None,
    );
    facts.answers(at(1), Ok(answers()));
    State::new(facts)
}

fn answers() -> Vec<Answer> {
    let leader = || says(RoleState::Leader);
    let follower = || says(RoleState::Follower);
    vec![
        answer(node(1), [("metrics", leader()), ("scheduler", follower())]),
        answer(node(2), [("metrics", follower()), ("scheduler", leader())]),
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
    codes.into_iter().all(|code| {
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        keys::action(key, state.typing).is_none_or(|action| state.act(action))
    })
}

fn typed(text: &str) -> impl Iterator<Item = KeyCode> + use<'_> {
    text.chars().map(KeyCode::Char)
}

#[test]
fn a_leader_that_was_not_seen_alive_and_says_nothing_is_doubtful() {
    let mut state = fleet();
    let mut seen = led(node(3), 5);
    seen.confirmed = false;
    let facts = state.facts_mut();
    facts.sight(at(2), sights([("metrics", seen)]), None);
    let screen = shown(&state);
    assert!(screen.contains("node-3?"), "{screen}");
    // It is in the matrix, though it can't be asked.
    assert_eq!(state.facts().cell("metrics", &node(3)), Cell::Leader);
    assert!(screen.contains("* leader"), "{screen}");
}

#[test]
fn what_the_leader_itself_says_makes_it_certain() {
    let mut state = fleet();
    let mut seen = led(node(1), 5);
    seen.confirmed = false;
    let facts = state.facts_mut();
    facts.sight(at(2), sights([("metrics", seen)]), None);
    assert!(!shown(&state).contains("node-1?"));
}

#[test]
fn each_state_of_an_instance_has_its_word() {
    let failing = Says {
        failing: true,
        ..says(RoleState::Follower)
    };
    let paused = Says {
        paused: true,
        ..says(RoleState::Follower)
    };
    let unhealthy = Says {
        healthy: Some(false),
        ..says(RoleState::Candidate)
    };
    for (says, word) in [
        (says(RoleState::Leader), "leader"),
        (says(RoleState::Follower), "follower"),
        (says(RoleState::Candidate), "candidate"),
        (says(RoleState::Draining), "draining"),
        (says(RoleState::Demoted), "cooling down"),
        (paused, "paused"),
        (failing, "failing"),
        (unhealthy, "unhealthy"),
    ] {
        let mut state = fleet();
        let facts = state.facts_mut();
        facts.answers(at(2), Ok(vec![answer(node(3), [("metrics", says)])]));
        let cell = state.facts().cell("metrics", &node(3));
        assert!(PLAIN.cell(cell).0.ends_with(word), "{cell:?}");
        let screen = shown(&state);
        assert!(screen.contains(word), "{word}: {screen}");
    }
}

#[test]
fn a_leader_that_is_paused_or_unhealthy_is_still_shown_to_lead() {
    for (paused, healthy, word) in [
        (true, Some(true), "leader, paused"),
        (false, Some(false), "leader, unwell"),
    ] {
        let mut state = fleet();
        let says = Says {
            paused,
            healthy,
            ..says(RoleState::Leader)
        };
        let facts = state.facts_mut();
        facts.answers(at(2), Ok(vec![answer(node(1), [("metrics", says)])]));
        let screen = shown(&state);
        assert!(screen.contains(word), "{screen}");
    }
}

#[test]
fn an_instance_that_goes_silent_is_told_so_and_forgotten_after_a_while() {
    let mut state = fleet();
    let only_one = || Ok(answers().drain(..1).collect());
    state.facts_mut().answers(at(10), only_one());
    state.facts_mut().answers(at(22), only_one());
    assert_eq!(state.facts().cell("metrics", &node(2)), Cell::NoAnswer);
    // Whoever is seen to lead is shown to, silent or not.
    assert_eq!(state.facts().cell("scheduler", &node(2)), Cell::Leader);
    let screen = shown(&state);
    for expected in [
        "silent 12s",
        "1 instance answers, 1 silent",
        "node-2 does not answer",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    state.facts_mut().answers(at(23), Ok(answers()));
    assert!(shown(&state).contains("node-2 answers again"));
    state.facts_mut().answers(at(30), only_one());
    state.facts_mut().answers(at(90), only_one());
    assert_eq!(state.facts().instances.len(), 1);
}

#[test]
fn an_instance_that_is_started_anew_takes_the_place_of_its_old_self() {
    let mut state = fleet();
    let mut anew = answers();
    anew[1].0.incarnation = Some(Uuid::from_u128(22));
    state.facts_mut().answers(at(2), Ok(anew));
    assert_eq!(state.facts().instances.len(), 2);
    let screen = shown(&state);
    assert!(screen.contains("node-2 is new"), "{screen}");
}

#[test]
fn two_processes_of_one_id_are_told_apart() {
    let mut state = fleet();
    let mut both = answers();
    let mut twin = both[1].clone();
    twin.0.incarnation = Some(Uuid::from_u128(0xabcd << 112));
    both.push(twin);
    state.facts_mut().answers(at(2), Ok(both));
    let screen = shown(&state);
    assert!(screen.contains("node-2 (0000)") && screen.contains("node-2 (abcd)"));
}

#[test]
fn what_the_bucket_tells_is_shown_also_if_nobody_can_be_asked() {
    let mut facts = Facts::new(at(0), "leaders".into(), "host:4222".into());
    facts.sight(at(1), sights([("metrics", led(node(1), 5))]), None);
    facts.answers(at(1), Err("this user may not ask".into()));
    let screen = shown_as(&State::new(facts), PLAIN, 110, 24);
    for expected in [
        "no reports from instances: this user may not ask; showing only the bucket",
        "* leader",
        "5s",
        "~0000002a",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
}

#[test]
fn a_view_that_is_not_current_says_since_when_and_why() {
    let mut state = fleet();
    let problem = Some((Duration::from_secs(12), "not connected".into()));
    let facts = state.facts_mut();
    facts.sight(at(2), facts.roles.clone(), problem);
    let screen = shown(&state);
    assert!(screen.contains("view STALE for 12s: not connected"));
    assert!(!screen.contains("view current"));
}

#[test]
fn the_bar_is_as_long_as_what_remains_of_the_lease() {
    for (part, plain, signs) in [
        (1.0, "##########", "██████████"),
        (0.5, "#####.....", "█████░░░░░"),
        (0.56, "######....", "█████▋░░░░"),
        (0.0, "..........", "░░░░░░░░░░"),
        (7.0, "##########", "██████████"),
    ] {
        assert_eq!(PLAIN.bar(10, part), plain);
        let ascii = false;
        assert_eq!(Look { ascii, ..PLAIN }.bar(10, part), signs);
    }
}

/// So many roles that they don't fit.
fn many() -> State {
    let mut facts = Facts::new(at(0), "leaders".into(), "127.0.0.1:4222".into());
    let roles = (0..100).map(|n| (format!("role-{n:03}"), led(node(n % 7), u64::from(n % 10))));
    facts.sight(at(1), roles.collect(), None);
    State::new(facts)
}

#[test]
fn many_roles_scroll_with_the_selection() {
    let mut state = many();
    let screen = shown(&state);
    assert!(screen.contains("> role-000") && !screen.contains("role-050"));
    assert!(screen.contains("5 of 100 visible"), "{screen}");
    assert!(press(&mut state, [KeyCode::Down, KeyCode::Char('j')]));
    assert!(shown(&state).contains("> role-002"));
    for _ in 0..5 {
        press(&mut state, [KeyCode::PageDown]);
    }
    assert!(shown(&state).contains("> role-052"));
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
        screen.contains("> role-099") && screen.contains("role-095"),
        "{screen}"
    );
    press(&mut state, [KeyCode::Home, KeyCode::Up]);
    assert!(shown(&state).contains("> role-000"));
}

#[test]
fn many_instances_scroll_to_the_side() {
    let mut state = many();
    let screen = shown(&state);
    assert!(screen.contains("1 to 4 of 7"), "{screen}");
    assert!(
        screen.contains("node-0") && !screen.contains("node-6"),
        "{screen}"
    );
    press(&mut state, [KeyCode::Right; 50]);
    let screen = shown(&state);
    assert!(
        screen.contains("4 to 7 of 7") && screen.contains("node-6"),
        "{screen}"
    );
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
fn roles_are_sorted_by_name_leader_lease_and_latest_change() {
    let mut state = fleet();
    let facts = state.facts_mut();
    let free = Seen {
        standing: Standing::Released,
        leader: None,
        remaining: None,
        ..led(node(1), 0)
    };
    let roles = sights([("a", led(node(2), 3)), ("b", led(node(1), 9)), ("c", free)]);
    facts.sight(at(2), roles, None);
    facts.happened(at(3), &happened("b", Some(node(1)), true));
    for (expected, title) in [
        (["a", "b", "c"], "by name"),
        (["c", "b", "a"], "by leader"),
        (["c", "a", "b"], "by remaining lease"),
        (["b", "a", "c"], "by latest change"),
        (["a", "b", "c"], "by name"),
    ] {
        assert_eq!(state.roles(), expected, "{title}");
        assert!(shown(&state).contains(title), "{title}");
        press(&mut state, typed("s"));
    }
}

#[test]
fn a_frozen_picture_stands_still_and_then_catches_up() {
    let mut state = fleet();
    press(&mut state, typed("f"));
    let free = Seen {
        standing: Standing::Expired,
        leader: None,
        ..led(node(1), 0)
    };
    let facts = state.facts_mut();
    facts.sight(at(9), sights([("metrics", free)]), None);
    let screen = shown(&state);
    assert!(
        screen.contains("FROZEN") && screen.contains("scheduler"),
        "{screen}"
    );
    press(&mut state, typed("f"));
    let screen = shown(&state);
    assert!(
        screen.contains("(expired)") && !screen.contains("scheduler"),
        "{screen}"
    );
}

#[test]
fn help_tells_the_keys_and_goes_away() {
    let mut state = fleet();
    press(&mut state, typed("?"));
    let screen = shown(&state);
    assert!(
        screen.contains("remaining lease, latest change"),
        "{screen}"
    );
    assert!(
        screen.contains("proves that an instance may act"),
        "{screen}"
    );
    press(&mut state, typed("?"));
    assert!(shown(&state).contains("Instances"));
}

#[test]
fn q_and_control_c_end_it_also_while_a_filter_is_typed() {
    let mut state = fleet();
    assert!(!press(&mut state, typed("q")));
    press(&mut state, typed("/"));
    let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let action = keys::action(key, state.typing).expect("an action");
    assert!(!state.act(action));
}

#[test]
fn plain_signs_are_ascii_alone_and_text_from_outside_can_not_steer_the_terminal() {
    let mut state = many();
    assert!(shown(&state).is_ascii());
    press(&mut state, typed("?"));
    assert!(shown(&state).is_ascii());
    let mut state = fleet();
    let facts = state.facts_mut();
    let mut odd = node(1);
    odd.id = "a\u{1b}[2Jb".into();
    facts.sight(at(2), sights([("metrics", led(odd, 5))]), None);
    assert!(!shown(&state).contains('\u{1b}'));
}
