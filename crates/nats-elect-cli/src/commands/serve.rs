//! `serve`: elections over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use nats_elect::ManagerConfig;
use serde_json::json;
use tokio::net::TcpListener;

use crate::exit::{Failure, Outcome};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::serve;
use crate::trust::Trust;

/// Instances are asked no more often.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60 * 60);

const MORE: &str = "\
Paths:
  /                                     a page for people, live
  /api/v1/roles, /api/v1/roles/ROLE     who leads, as `ls --json` shows it
  /api/v1/leader/ROLE/INSTANCE          200 if that instance is known to lead, else 503
  /api/v1/groups, /api/v1/groups/GROUP  who owns how many units, as `group show --json` shows it
  /api/v1/groups/GROUP/owner?key=KEY    the owner of a key's shard; 503 if none is known
  /api/v1/instances                     what the instances say, as `candidates --json` shows it
  /api/v1/history?role=ROLE&since=1h    past leaders, as `history --json` shows them
  /api/v1/events                        changes as they come, as server-sent events
  /api/v1/openapi.json                  all of these as an OpenAPI document
  /metrics                              for Prometheus
  /livez, /readyz                       whether it runs, and whether it has read its buckets

Exit codes:
  0  it was told to end
  1  the address can't be listened on
  2  the command line or a configuration breaks a rule
  4  NATS refused the credentials or a permission

Examples:
  nats-elect serve
  nats-elect serve --listen 0.0.0.0:8642 leaders jobs
  curl -s http://127.0.0.1:8642/api/v1/roles | jq .roles";

/// Serve who leads what, over HTTP
///
/// One process beside a bucket or several. It only looks on, and several of them can run. It goes on through an outage of NATS, and its answers then say that they
/// are stale, and since when.
///
/// There is no encryption, and no login to look. Everyone who reaches the address learns the leaders and
/// what the instances tell of themselves.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Serve {
    /// The buckets to serve. Without one it is the bucket of --bucket
    buckets: Vec<String>,

    /// The address to listen on. With port 0 any free port
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:8642")]
    listen: SocketAddr,

    /// A name by which browsers reach this server, if it is not localhost; may be repeated. On a
    /// loopback address requests under other names are refused
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// How often the instances are asked, from 1s to 1h. With very many instances it is less often
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    interval: Duration,

    #[command(flatten)]
    trust: Trust,
}

impl Serve {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        if !(SHORTEST..=LONGEST).contains(&self.interval) {
            return Err(Failure::usage("--interval must be from 1s to 1h"));
        }
        let trust = self.trust.keys()?;
        let buckets = self.configs(shared)?;
        let listener = TcpListener::bind(self.listen).await;
        let listener = listener.map_err(|error| {
            let why = format!("{} can't be listened on: {error}", self.listen);
            Failure::failed(why).advice("choose another address with --listen")
        })?;
        let address = listener.local_addr()?;
        let url = format!("http://{address}");
        output.tell(&json!({ "listening": url }), [&url])?;
        serve::serve(listener, buckets, trust, self.interval, self.hosts).await
    }

    fn configs(&self, shared: &Shared) -> Result<Vec<ManagerConfig>, Failure> {
        let config = shared.config()?;
        if self.buckets.is_empty() {
            return Ok(vec![config]);
        }
        let mut names = self.buckets.clone();
        names.sort();
        names.dedup();
        let configs = names.into_iter().map(|bucket| {
            let mut config = config.clone();
            config.bucket = bucket;
            config.validate()?;
            Ok(config)
        });
        configs.collect()
    }
}
