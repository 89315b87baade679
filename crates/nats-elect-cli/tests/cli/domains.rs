//! A hub and a leaf node, each with a bucket of one name in a JetStream domain of its own.

use nats_elect::RoleManager;
use nats_elect_testing::{NatsServer, eventually};

use crate::fleet::{SOON, json};
use crate::pair::{builder, leads, started};
use crate::{Ended, ended, nats_elect};

struct Domains {
    _hub: NatsServer,
    leaf: NatsServer,
    in_hub: RoleManager,
    in_leaf: RoleManager,
}

/// An instance in each domain, which leads there. Those at the leaf hear both.
async fn domains() -> Domains {
    let hub = NatsServer::builder().hub().domain("hub").start();
    let hub = hub.expect("a hub");
    let leaf = NatsServer::builder().leaf_of(&hub.leaf_address().expect("a hub"));
    let leaf = leaf.domain("leaf").start().expect("a leaf");
    let in_hub = started(builder(hub.url(), "in-hub")).await;
    let in_leaf = started(builder(leaf.url(), "in-leaf")).await;
    for manager in [&in_hub, &in_leaf] {
        leads(manager, "scheduler").await;
        leads(manager, "metrics").await;
    }
    let all = Domains {
        _hub: hub,
        leaf,
        in_hub,
        in_leaf,
    };
    eventually(SOON, "the hub's answers at the leaf", async || {
        let hub = all.at_leaf(&["candidates", "--domain", "hub"]);
        (hub.code == Some(0)).then_some(())
    })
    .await;
    eventually(SOON, "the leaf's answers", async || {
        let leaf = all.at_leaf(&["candidates", "--domain", "leaf"]);
        (leaf.code == Some(0)).then_some(())
    })
    .await;
    all
}

impl Domains {
    fn at_leaf(&self, arguments: &[&str]) -> Ended {
        ended(nats_elect(arguments).args(["--server", &self.leaf.url()]))
    }

    fn paused(&self) -> [bool; 2] {
        let paused = |it: &RoleManager| it.role("scheduler").expect("a role").status().paused;
        [paused(&self.in_hub), paused(&self.in_leaf)]
    }

    fn leads(&self) -> [bool; 2] {
        let leads = |it: &RoleManager| it.role("scheduler").expect("a role").is_leader();
        [leads(&self.in_hub), leads(&self.in_leaf)]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_order_reaches_a_bucket_of_the_same_name_in_another_domain() {
    let domains = domains().await;
    for order in [
        &["cordon", "--all-instances"][..],
        &["pause", "in-leaf"],
        &["step-down", "scheduler", "--force"],
        &["candidates"],
    ] {
        let refused = domains.at_leaf(order);
        refused.assert_code(2);
        refused.complains_all(["domain \"hub\"", "domain \"leaf\"", "--domain"]);
    }
    assert_eq!(domains.paused(), [false, false]);
    assert_eq!(domains.leads(), [true, true]);

    let stepped = domains.at_leaf(&["step-down", "scheduler", "--force", "--domain", "leaf"]);
    assert!(stepped.stdout.contains("in-leaf ("), "{}", stepped.stderr);
    assert!(domains.leads()[0]);
    domains
        .at_leaf(&["cordon", "--all-instances", "--domain", "leaf"])
        .assert_code(0);
    assert_eq!(domains.paused(), [false, true]);
    assert!(domains.leads()[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_the_bucket_asks_its_instances_alone() {
    let domains = domains().await;
    let screen = domains.at_leaf(&["top", "--once"]);
    screen.says("in-leaf");
    // Events of the hub may be among the last changes.
    let one = "1 instance answers";
    screen.says(one);
    let found = domains.at_leaf(&["doctor", "--json"]);
    let found = json(&found.stdout);
    let checks = found["checks"].as_array().expect("a list");
    let instances = checks.iter().find(|it| it["check"] == "instances");
    let instances = instances.expect("it")["found"].as_str().expect("text");
    assert!(instances.starts_with("1 found"), "{instances}");
    let operator = |more: &[&str]| {
        let arguments = [&["doctor", "--as", "operator"], more].concat();
        domains.at_leaf(&arguments).stdout
    };
    let both = operator(&[]);
    assert!(both.contains("--domain"), "{both}");
    let of_hub = operator(&["--domain", "hub"]);
    assert!(of_hub.contains("1 found"), "{of_hub}");
    let looked = domains.at_leaf(&["inspect", "scheduler", "--wait", "1ms", "--json"]);
    let looked = json(&looked.stdout);
    let candidates = looked["candidates"].as_array().expect("a list");
    assert_eq!(candidates.len(), 1, "{looked:#}");
    assert_eq!(candidates[0]["instance_id"], "in-leaf");
    let retired = domains.at_leaf(&["role", "retire", "scheduler", "--yes"]);
    assert!(retired.stderr.contains("in-leaf ("), "{}", retired.stderr);
    for reads in [
        &["ls", "--domain", "hub"],
        &["doctor", "--domain", "hub"],
        &["inspect", "--domain=hub", "scheduler"][..],
    ] {
        let refused = domains.at_leaf(reads).with_code(2);
        refused.complains("do not read the bucket");
    }
}
