#![doc = include_str!("../docs/README.md")]
#![doc = include_str!("docs/links.html")]

macro_rules! pages {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = include_str!($file)]
        #[doc = include_str!("docs/links.html")]
        pub mod $name {}
    )*};
}

pages! {
    admin = "../docs/admin.md";
    agent = "../docs/agent.md";
    benchmarks = "../docs/benchmarks.md";
    benchmarks_groups = "../docs/benchmarks-groups.md";
    changing_leaders = "../docs/changing-leaders.md";
    cli = "../docs/cli.md";
    cli_reference = "../docs/cli-reference.md";
    comparison = "../docs/comparison.md";
    configuration = "../docs/configuration.md";
    correctness = "../docs/correctness.md";
    events = "../docs/events.md";
    failover = "../docs/failover.md";
    fencing = "../docs/fencing.md";
    groups = "../docs/groups.md";
    guarantees = "../docs/guarantees.md";
    handlers = "../docs/handlers.md";
    health = "../docs/health.md";
    metrics = "../docs/metrics.md";
    migrating = "../docs/migrating.md";
    mixed_fleets = "../docs/mixed-fleets.md";
    observing = "../docs/observing.md";
    operations = "../docs/operations.md";
    protocol = "../docs/protocol.md";
    security = "../docs/security.md";
    serve = "../docs/serve.md";
    signing = "../docs/signing.md";
}

// Its examples need the feature.
#[cfg_attr(feature = "testing", doc = include_str!("../docs/testing.md"))]
#[cfg_attr(not(feature = "testing"), doc = "The feature `testing` has this page.")]
#[doc = include_str!("docs/links.html")]
pub mod testing {}
