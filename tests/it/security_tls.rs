//! Encrypted connections: to a server of one's own authority, with a certificate on both sides, and
//! from the first byte on.

use nats_elect::{Error, RoleManagerBuilder};
use nats_elect_testing::NatsServer;

use crate::security::{accepted, misconfigured, refused};
use crate::support::credentials::{Authority, Files};

fn server(config: &str) -> NatsServer {
    NatsServer::builder().config(config).start().expect("start")
}

fn told(error: &Error, words: &str) {
    let Error::Tls(reason) = error else {
        panic!("{error:?}");
    };
    assert!(reason.contains(words), "{reason}");
}

#[tokio::test]
async fn a_server_is_trusted_if_the_right_authority_vouches_for_it() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = server(&ours.server_block(""));
    let url = server.url();
    accepted(&url, |it| it.ca_file(ours.file())).await;
    let encrypted = url.replace("nats://", "tls://");
    accepted(&encrypted, |it| it.ca_file(ours.file())).await;
    let error = refused(&url, |it| it.ca_file(others.file())).await;
    told(&error, "tls.ca_file");
    // The system's authorities do not know it either.
    let error = refused(&url, |it| it).await;
    told(&error, "tls.ca_file");
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let error = refused(&elsewhere, |it| it.ca_file(ours.file())).await;
    told(&error, "names the host");
}

#[tokio::test]
async fn both_sides_show_a_certificate_where_the_server_asks_for_it() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = server(&ours.server_block("verify: true"));
    let url = server.url();
    let mine = ours.certify("client", &["candidate"]);
    accepted(&url, |it| {
        it.ca_file(ours.file())
            .client_certificate(&mine.cert, &mine.key)
    })
    .await;
    let error = refused(&url, |it| it.ca_file(ours.file())).await;
    told(&error, "tls.cert_file");
    let strange = others.certify("client", &["candidate"]);
    let error = refused(&url, |it| {
        it.ca_file(ours.file())
            .client_certificate(&strange.cert, &strange.key)
    })
    .await;
    told(&error, "tls.cert_file");
}

#[tokio::test]
async fn a_server_that_wants_it_gets_tls_before_its_greeting() {
    let ours = Authority::new();
    let server = server(&ours.server_block("handshake_first: true"));
    let url = server.url();
    accepted(&url, |it| it.ca_file(ours.file()).tls_first()).await;
    // Without it both sides wait for the other.
    let started = refused(&url, |it| {
        // An attempt to connect is given up after two seconds.
        let timeout = std::time::Duration::from_secs(5);
        it.ca_file(ours.file()).start_timeout(timeout)
    });
    let Error::Unavailable { reason, .. } = started.await else {
        panic!("another reason");
    };
    assert!(reason.contains("tls.first"), "{reason}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_where_tls_is_asked_for() {
    let ours = Authority::new();
    let plain = server("");
    let url = plain.url();
    accepted(&url, |it| it).await;
    for error in [
        refused(&url, RoleManagerBuilder::require_tls).await,
        refused(&url, |it| it.ca_file(ours.file())).await,
        refused(&url, RoleManagerBuilder::tls_first).await,
        refused(&url.replace("nats://", "tls://"), |it| it).await,
    ] {
        told(&error, "does not answer with TLS");
    }
}

#[tokio::test]
async fn files_that_are_no_certificates_are_told_before_anything_connects() {
    let (ours, files) = (Authority::new(), Files::new());
    let text = files.write("text", "s3cret");
    let nowhere = files.path("nowhere");
    let mine = ours.certify("client", &["candidate"]);
    let other = ours.certify("other", &["candidate"]);
    misconfigured("tls.ca_file", "can't be read", |it| it.ca_file(&nowhere)).await;
    misconfigured("tls.ca_file", "a certificate in PEM", |it| {
        it.ca_file(&text)
    })
    .await;
    misconfigured("tls.cert_file", "a certificate in PEM", |it| {
        it.client_certificate(&text, &mine.key)
    })
    .await;
    misconfigured("tls.key_file", "a private key in PEM", |it| {
        it.client_certificate(&mine.cert, &text)
    })
    .await;
    misconfigured("tls.key_file", "does not match", |it| {
        it.client_certificate(&mine.cert, &other.key)
    })
    .await;
}
