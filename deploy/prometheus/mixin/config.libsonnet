// What a fleet may want otherwise. Override it: `(import 'mixin.libsonnet') + { _config+:: { fleet: ['cluster', 'bucket'] } }`.
{
  _config:: {
    // Which series are ours, as matchers without braces: 'job="control-plane"'.
    selector: '',
    // The labels that tell one fleet of instances from another. If several NATS systems have a bucket of the same name
    // and one Prometheus scrapes them all, add the label that tells them apart.
    fleet: ['bucket'],
    // The label of an instance.
    instance: 'instance_id',
    // Where the runbook is, up to its headings.
    runbook: 'https://docs.rs/nats-elect/latest/nats_elect/runbook/index.html',
    // How often the recording rules are evaluated, such as '15s'; by default as Prometheus is configured.
    interval: null,
    dashboard: {
      uid: 'nats-elect',
      title: 'nats-elect: who leads what',
      refresh: '10s',
    },
  },

  // For rules: series of a metric, the labels that are kept of a fleet, of a role, of a group and of an instance.
  series(metric, matchers='')::
    local all = std.filter(function(it) it != '', [$._config.selector, matchers]);
    metric + if all == [] then '' else '{' + std.join(', ', all) + '}',
  fleet:: std.join(', ', $._config.fleet),
  role:: std.join(', ', $._config.fleet + ['role']),
  group:: std.join(', ', $._config.fleet + ['group']),
  standing:: std.join(', ', $._config.fleet + ['role', $._config.instance]),
  instance:: std.join(', ', $._config.fleet + [$._config.instance]),
}
