//! An axum application beside a `RoleManager`: every instance says who leads, the leader works.
//!
//! ```text
//! cargo run --example axum
//! cargo run --example axum -- 127.0.0.1:3001           # a second instance
//! curl http://127.0.0.1:3000/leader
//! curl -i -d 'job 7' http://127.0.0.1:3001/work        # 503 with the leader's name
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). Ctrl-C hands the
//! role over once its work has ended, and stops the HTTP server.

use std::env::args;
use std::future::IntoFuture;
use std::time::Duration;

use axum::routing::{get, post};
use axum::{Json, Router, extract::State, http::StatusCode};
use nats_elect::{BoxError, RoleConfig, RoleHandle, RoleManager, Term, handler_fn};
use serde_json::{Value, json};
use tokio::{net::TcpListener, signal::ctrl_c, sync::watch};

/// The HTTP handlers' view of the election.
#[derive(Clone)]
struct App {
    role: RoleHandle,
    term: watch::Receiver<Option<Term>>, // The last one here. It may be over: it says so itself.
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = args().nth(1).unwrap_or("127.0.0.1:3000".into());
    let listener = TcpListener::bind(&address).await?;

    let (terms, term) = watch::channel(None);
    let lead = handler_fn(move |term: Term| {
        terms.send_replace(Some(term.clone()));
        async move {
            term.cancelled().await;
            Ok(())
        }
    });
    // The role's record carries `http`, so that others can tell where the leader listens.
    let config = RoleConfig::default().meta("http", &address);
    let manager = RoleManager::builder()
        .with_env()
        .bucket("leaders")
        .bucket_auto_create()
        .role("worker", config, lead)
        .start()
        .await?;

    let role = manager.role("worker")?;
    let routes = Router::new()
        .route("/leader", get(async |State(app): State<App>| leader(&app)))
        .route("/work", post(work))
        .with_state(App { role, term });
    let server = axum::serve(listener, routes).with_graceful_shutdown(async {
        let _ = ctrl_c().await;
    });
    let server = tokio::spawn(server.into_future());
    println!("{} listens at http://{address}", manager.instance_id());
    manager.run_until(ctrl_c()).await?;
    // A client that does not finish its request delays the end by 5 s at most.
    let _ = tokio::time::timeout(Duration::from_secs(5), server).await;
    Ok(())
}

fn leader(app: &App) -> Json<Value> {
    Json(json!({"leader": app.role.leader()}))
}

async fn work(State(app): State<App>, job: String) -> (StatusCode, Json<Value>) {
    let refused = || (StatusCode::SERVICE_UNAVAILABLE, leader(&app));
    let term = app.term.borrow().clone();
    let Some(term) = term.filter(|term| term.is_valid() && !term.is_cancelled()) else {
        return refused();
    };
    // A task of the term goes on if the client leaves. The role is not free before the task ends.
    let store = term.store();
    let stored = term.spawn(async move { store.put("last-job", job).await });
    match stored.await {
        Ok(Some(Ok(revision))) => (StatusCode::OK, Json(json!({"stored": revision}))),
        Ok(Some(Err(error))) => {
            let error = Json(json!({"error": error.to_string()}));
            (StatusCode::SERVICE_UNAVAILABLE, error)
        }
        Ok(None) | Err(_) => refused(), // The term ended first.
    }
}
