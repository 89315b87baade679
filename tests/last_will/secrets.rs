//! What a companion gets from its parent, and on which way.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use nats_elect::{AuthConfig, ManagerConfig};
use nats_elect_testing::NatsServer;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::ends::Test;
use crate::stage::Stage;
use crate::victim::Victim;

pub const TESTS: &[(&str, Test)] = &[
    ("secrets_reach_the_companion_through_the_pipe_alone", || {
        Box::pin(through_the_pipe())
    }),
    ("a_companion_holds_no_file_of_its_parent", || {
        Box::pin(no_files())
    }),
    ("a_companion_of_another_version_says_so", || {
        Box::pin(async { another_version() })
    }),
];

const TTL: Duration = Duration::from_secs(15);
const PASSWORD: &str = "s3cret-of-the-test";

async fn through_the_pipe() {
    let users = format!("authorization {{ user: ada, password: \"{PASSWORD}\" }}");
    let server = NatsServer::builder()
        .config(&users)
        .start()
        .expect("a server");
    let config = ManagerConfig::default()
        .servers(server.url())
        .auth(AuthConfig::default().user_and_password("ada", PASSWORD));
    let stage = Stage::with(server, config).await;
    let mut victim = Victim::start(&stage.config, "r", TTL, stage.folder.path()).await;
    let companion = victim.companion(None).await.as_raw_nonzero();
    for file in ["cmdline", "environ"] {
        let text = std::fs::read(format!("/proc/{companion}/{file}")).expect("its own process");
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains(PASSWORD), "{file}: {text}");
    }
    let mut next = stage.next("r", TTL).await;
    let at = victim.kill();
    // It could log in.
    assert!(next.started().await.since(at) < TTL / 2);
}

async fn no_files() {
    let stage = Stage::set().await;
    let victim = Victim::start(&stage.config, "r", TTL, stage.folder.path()).await;
    let files = |process: String| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("its own process");
        let links = files.flatten().map(|file| std::fs::read_link(file.path()));
        let links: Vec<_> = links.flatten().map(|it| it.display().to_string()).collect();
        links
    };
    let companion = victim.companion(None).await.as_raw_nonzero();
    let of_parent = files(victim.id().to_string());
    let of_companion = files(companion.to_string());
    let shared: Vec<_> = of_companion
        .iter()
        .filter(|file| file.starts_with("socket:") || file.starts_with('/'))
        .filter(|file| of_parent.contains(file))
        .filter(|file| {
            let kind = std::fs::metadata(file.as_str()).map(|it| it.file_type());
            !kind.is_ok_and(|kind| kind.is_char_device())
        })
        .collect();
    assert!(shared.is_empty(), "{shared:?} of {of_companion:?}");
    assert!(
        of_parent
            .iter()
            .filter(|it| it.starts_with("socket:"))
            .count()
            > 1,
        "{of_parent:?}"
    );
}

/// What it is told has a form that it does not know.
fn another_version() {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let (life, _held) = std::io::pipe().expect("a pipe");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [life.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let first = [IoSlice::new(b"\n")];
    sendmsg(&ours, &first, &mut control, SendFlags::empty()).expect("room");
    writeln!(ours, r#"{{"setup":{{"token":"{PASSWORD}"}}}}"#).expect("room");
    let companion = Command::new(std::env::current_exe().expect("this program"))
        .arg("nats-elect-last-will")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let output = companion.wait_with_output().expect("its end");
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("is of version"), "{output}");
    assert!(!output.contains(PASSWORD), "{output}");
}
