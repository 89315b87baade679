//! `top`: as text, and as a screen in a real terminal.

mod groups;
mod past;
mod screenshot;
mod svg;
pub mod terminal;

use nats_elect::{AdminConfig, EventsConfig, ManagerConfig, RoleConfig, RoleManager, StopOptions};
use nats_elect_testing::{NatsServer, eventually};
use rustix::process::Signal;

use self::terminal::Terminal;
use crate::fleet::{SOON, obedient};
use crate::pair::leads;
use crate::{Ended, ended, nats_elect};

async fn instance(server: &NatsServer, id: &str, admin: AdminConfig) -> RoleManager {
    let mut config = ManagerConfig::default();
    config.admin = admin;
    config.events = EventsConfig::off();
    started(server, id, config).await
}

async fn started(server: &NatsServer, id: &str, config: ManagerConfig) -> RoleManager {
    // A shorter ttl has shorter heartbeats, and one that is late shows.
    let role = RoleConfig::default;
    RoleManager::builder()
        .config(config)
        .servers(server.url())
        .bucket_auto_create()
        .instance_id(id)
        .role("metrics", role(), obedient())
        .role("scheduler", role(), obedient())
        .start()
        .await
        .expect("start")
}

/// `top` on a screen of a common size.
fn screen(server: &NatsServer) -> Terminal {
    Terminal::run((24, 80), &["top", "-s", &server.url()], &[])
}

/// `top --once`, as soon as it shows all of this.
async fn shows(server: &NatsServer, options: &[&str], wanted: &[&str]) -> Ended {
    let url = server.url();
    let arguments = [&["top", "--once", "-s", &url], options].concat();
    for _ in 0..20 {
        let mut command = nats_elect(&arguments);
        let output = tokio::task::spawn_blocking(move || ended(&mut command));
        let output = output.await.expect("its end").with_code(0);
        if wanted.iter().all(|text| output.stdout.contains(text)) {
            return output;
        }
        println!("{}", output.stdout);
    }
    panic!("it never showed all of {wanted:?}");
}

/// The words of the line that begins so.
fn line<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(begin));
    line.expect(begin).split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_shows_who_leads_and_what_every_instance_does() {
    let server = NatsServer::start().expect("a server");
    let first = instance(&server, "node-1", AdminConfig::default()).await;
    for role in ["metrics", "scheduler"] {
        let role = first.role(role).expect("a role");
        eventually(SOON, "a heartbeat", async || role.status().heartbeat_took).await;
    }
    let second = instance(&server, "node-2", AdminConfig::default()).await;
    let scheduler = second.role("scheduler").expect("a role");
    scheduler.pause().await.expect("a pause");
    let wanted = [
        "● leader",
        "○ follower",
        "= follower, paused",
        "2 instances answer",
    ];
    let output = shows(&server, &[], &wanted).await;
    let text = &output.stdout;
    assert!(text.contains("view current"), "{text}");
    assert!(text.contains("bucket leaders at 127.0.0.1:"), "{text}");
    let row = line(text, "scheduler");
    assert_eq!(row[1], "node-1", "{text}");
    let status = first.role("scheduler").expect("a role").status();
    let token = status.fencing_token.expect("a term").to_string();
    assert!(row[2].starts_with('█'), "{text}");
    let [heartbeat, short] = row[row.len() - 2..] else {
        panic!("{text}")
    };
    assert!(heartbeat.ends_with('s'), "{text}");
    assert_eq!(short.trim_start_matches('…'), &token[token.len() - 8..]);
    // Of both instances in both roles.
    assert_eq!(text.matches(" connected ").count(), 4, "{text}");
    assert_eq!(output.stderr, "");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_can_not_be_asked_are_shown_as_far_as_the_bucket_tells() {
    let server = NatsServer::start().expect("a server");
    let one = instance(&server, "node-1", AdminConfig::off()).await;
    leads(&one, "scheduler").await;
    let wanted = [
        "no reports from instances: no instance runs, or the admin service is off",
        "no instance reports the role",
    ];
    let output = shows(&server, &[], &wanted).await;
    assert!(line(&output.stdout, "scheduler")[1].starts_with("node-1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_ask_sees_what_the_bucket_tells() {
    let users = "authorization { users: [ { user: ada, password: pw }, \
        { user: eve, password: pw, permissions: { publish: { deny: \
            [ \"nats-elect-admin.>\", \"$JS.API.STREAM.INFO.nats-elect-events-leaders\" ] } } } ] }";
    let server = NatsServer::builder().config(users).start();
    let server = server.expect("a server");
    let mut config = ManagerConfig::default();
    config.auth.user = Some("ada".into());
    config.auth.password = Some("pw".into());
    let _one = started(&server, "node-1", config).await;
    let options = ["--user", "eve", "--password", "pw"];
    let wanted = [
        "no reports from instances: no answer",
        "this user may not ask",
        ": this user may not read the history",
        "no instance reports the role",
    ];
    let output = shows(&server, &options, &wanted).await;
    output.says("view current");
}

#[test]
fn what_makes_no_sense_is_told_and_what_to_use_instead() {
    for (arguments, expected) in [
        (&["top", "--json"][..], "`candidates --json`"),
        (&["top", "--once", "--json"], "`watch --json`"),
        (&["top"], "needs a terminal"),
        (&["top", "--once", "--interval", "10ms"], "from 500ms to 1h"),
    ] {
        let output = ended(&mut nats_elect(arguments)).with_code(2);
        output.complains(expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_screen_follows_what_happens_and_leaves_the_terminal_as_it_was() {
    let server = NatsServer::start().expect("a server");
    let first = instance(&server, "node-1", AdminConfig::default()).await;
    leads(&first, "scheduler").await;
    let second = instance(&server, "node-2", AdminConfig::default()).await;
    let mut terminal = screen(&server);
    let screen = terminal
        .shows(&["● leader", "○ follower", "node-1", "node-2", "q quit"])
        .await;
    assert!(screen.contains("view current"), "{screen}");
    assert!(terminal.is_screen());

    first.stop(StopOptions::default()).await.expect("a stop");
    terminal.shows(&["scheduler: node-2 leads"]).await;
    terminal.press("/metr\r");
    terminal.shows(&["with \"metr\""]).await;
    terminal.press("?");
    terminal.shows(&["closes it"]).await;
    terminal.press("?\u{1b}");
    terminal.resize(30, 120);
    terminal.shows(&["ttl 15s"]).await;
    terminal.quit().await;
    terminal.is_as_before().await;
    second.stop(StopOptions::default()).await.expect("a stop");
}

/// A new size and a key may come at the same time: neither is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_heard_while_the_size_changes() {
    let server = NatsServer::start().expect("a server");
    let _one = instance(&server, "node-1", AdminConfig::default()).await;
    let mut terminal = screen(&server);
    terminal.shows(&["q quit"]).await;
    for round in 0..50 {
        terminal.resize(24 + round % 2, 80);
        terminal.press("?");
        let help = ["closes it"].map(|text| (text, round % 2 == 0));
        terminal.shows_or_not(&help).await;
    }
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_terminal_is_as_it_was_also_after_control_c_and_when_it_is_told_to_end() {
    let server = NatsServer::start().expect("a server");
    let _one = instance(&server, "node-1", AdminConfig::default()).await;
    let ends: [fn(&mut Terminal); 2] = [|it| it.press("\u{3}"), |it| it.signal(Signal::TERM)];
    for end in ends {
        let mut terminal = screen(&server);
        terminal.shows(&["q quit"]).await;
        end(&mut terminal);
        assert_eq!(terminal.ended().await, 0);
        terminal.is_as_before().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_colours_unless_they_are_not_wanted() {
    let server = NatsServer::start().expect("a server");
    let _one = instance(&server, "node-1", AdminConfig::default()).await;
    let url = server.url();
    let arguments = ["top", "-s", url.as_str()];
    for (environment, coloured) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let mut terminal = Terminal::run((24, 80), &arguments, environment);
        terminal.shows(&["● leader"]).await;
        assert_eq!(terminal.is_coloured(), coloured, "{environment:?}");
        terminal.quit().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_makes_the_view_stale() {
    let mut server = NatsServer::start().expect("a server");
    let _one = instance(&server, "node-1", AdminConfig::default()).await;
    let mut terminal = screen(&server);
    terminal
        .shows(&["view current", "● leader", "1 instance answers"])
        .await;
    server.kill();
    terminal.shows(&["view STALE for", "no instances"]).await;
    server.restart().expect("a server");
    terminal
        .shows(&["view current", "1 instance answers"])
        .await;
    terminal.quit().await;
}
