//! Encrypted connections: to a server of one's own authority, with a certificate on both sides, and
//! from the first byte on.

use nats_elect::{Error, TlsConfig};

use crate::security::{accepted, misconfigured, refused};
use crate::support::configured;
use crate::support::credentials::{Authority, Files};

fn told(error: &Error, words: &str) {
    let Error::Tls(reason) = error else {
        panic!("{error:?}");
    };
    assert!(reason.contains(words), "{reason}");
}

fn trusting(authority: &Authority) -> TlsConfig {
    TlsConfig::default().ca_file(authority.file())
}

#[tokio::test]
async fn a_server_is_trusted_if_the_right_authority_vouches_for_it() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = configured(&ours.server_block(""));
    let url = server.url();
    accepted(&url, |it| it.tls(trusting(&ours))).await;
    let encrypted = url.replace("nats://", "tls://");
    accepted(&encrypted, |it| it.tls(trusting(&ours))).await;
    let error = refused(&url, |it| it.tls(trusting(&others))).await;
    told(&error, "tls.ca_file");
    // The system's authorities do not know it either.
    let error = refused(&url, |it| it).await;
    told(&error, "tls.ca_file");
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let error = refused(&elsewhere, |it| it.tls(trusting(&ours))).await;
    told(&error, "names the host");
}

#[tokio::test]
async fn both_sides_show_a_certificate_where_the_server_asks_for_it() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = configured(&ours.server_block("verify: true"));
    let url = server.url();
    let mine = ours.certify("client", &["candidate"]);
    accepted(&url, |it| {
        it.tls(trusting(&ours).client_certificate(&mine.cert, &mine.key))
    })
    .await;
    let error = refused(&url, |it| it.tls(trusting(&ours))).await;
    told(&error, "tls.cert_file");
    let strange = others.certify("client", &["candidate"]);
    let error = refused(&url, |it| {
        it.tls(trusting(&ours).client_certificate(&strange.cert, &strange.key))
    })
    .await;
    told(&error, "tls.cert_file");
}

#[tokio::test]
async fn a_server_that_wants_it_gets_tls_before_its_greeting() {
    let ours = Authority::new();
    let server = configured(&ours.server_block("handshake_first: true"));
    let url = server.url();
    accepted(&url, |it| it.tls(trusting(&ours).first())).await;
    // Without it both sides wait for the other.
    let started = refused(&url, |it| {
        // An attempt to connect is given up after two seconds.
        let timeout = std::time::Duration::from_secs(5);
        it.tls(trusting(&ours)).start_timeout(timeout)
    });
    let Error::Unavailable { reason, .. } = started.await else {
        panic!("another reason");
    };
    assert!(reason.contains("tls.first"), "{reason}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_where_tls_is_asked_for() {
    let ours = Authority::new();
    let plain = configured("");
    let url = plain.url();
    accepted(&url, |it| it).await;
    for error in [
        refused(&url, |it| it.tls(TlsConfig::default().require())).await,
        refused(&url, |it| it.tls(trusting(&ours))).await,
        refused(&url, |it| it.tls(TlsConfig::default().first())).await,
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
    let tls = TlsConfig::default;
    for (field, rule, tls) in [
        ("tls.ca_file", "can't be read", tls().ca_file(&nowhere)),
        ("tls.ca_file", "a certificate in PEM", tls().ca_file(&text)),
        (
            "tls.cert_file",
            "a certificate in PEM",
            tls().client_certificate(&text, &mine.key),
        ),
        (
            "tls.key_file",
            "a private key in PEM",
            tls().client_certificate(&mine.cert, &text),
        ),
        (
            "tls.key_file",
            "does not match",
            tls().client_certificate(&mine.cert, &other.key),
        ),
    ] {
        misconfigured(field, rule, |it| it.tls(tls)).await;
    }
}
