//! The page for people.

use nats_elect_testing::NatsServer;

use super::{Answer, is_ok, serving};
use crate::fleet::{ROLE, instance, led};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_shows_leaders_leases_tokens_candidates_and_changes_without_script() {
    let (server, a) = led().await;
    let _b = instance(&server, "node-2").start().await.expect("start");
    let token = a.role(ROLE).expect("it").status().fencing_token;
    let token = token.expect("a term").to_string();
    let serve = serving(&server, &[]);
    let whole = |answer: &Answer| {
        let has = |text: &str| answer.body.contains(text);
        has("</span> confirmed")
            && has(">node-1<")
            && has("<svg class=\"lease\"")
            && has(" of 3s</span>")
            && has(&format!("title=\"{token}\""))
            && has("</span> node-1: leader</li>")
            && has("<li>node-2: follower</li>")
            && has("leads: no earlier leader")
            && has("aria-label=\"1 leader in a row; node-1 has led since ")
            && has("%\"><title>node-1 led from ")
            && has("All roles are led")
    };
    let page = serve.until("the page", "/", whole).await;
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(!page.body.contains("style="), "the policy forbids it");
    assert!(!page.body.contains("<script>"), "the policy forbids it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_it_is_small_and_asks_for_nothing_from_elsewhere() {
    let (server, _a) = led().await;
    let serve = serving(&server, &[]);
    serve.until("the bucket", "/readyz", is_ok).await;
    let page = serve.get("/");
    let mut size = page.body.len();
    for (file, kind) in [
        ("style.css", "text/css; charset=utf-8"),
        ("script.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        assert!(page.body.contains(&format!("\"{file}\"")), "{file}");
        let asset = serve.get(&format!("/{file}"));
        assert_eq!(
            (asset.status, asset.header("content-type")),
            (200, Some(kind))
        );
        let body = asset
            .body
            .replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!body.contains("//") || file == "script.js", "{file}");
        assert!(!body.contains("http"), "{file}");
        size += asset.body.len();
    }
    assert!(!page.body.contains("http:") && !page.body.contains("https:"));
    assert!(size <= 100 * 1024, "{size} bytes");
    assert_eq!(serve.get("/other.js").status, 404);
    assert_eq!(serve.get("/..%2f..%2fetc%2fpasswd").status, 404);
}

#[tokio::test]
async fn before_the_bucket_is_read_it_says_so() {
    let server = NatsServer::start().expect("start");
    let serve = serving(&server, &["--timeout", "1s"]);
    let page = serve.get("/");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Stale for "), "{}", page.body);
    assert!(page.body.contains("Not read yet."), "{}", page.body);
    assert!(!page.body.contains("No role was ever led"), "{}", page.body);
    assert!(!page.body.contains(" led</p>"), "{}", page.body);
}
