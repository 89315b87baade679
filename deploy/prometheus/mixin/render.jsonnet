// Every rendered file, by its path from `deploy`.
local mixin = import 'mixin.libsonnet';
local yaml(rules) =
  '# Rendered from deploy/prometheus/mixin; change it there.\n'
  + std.manifestYamlDoc(rules, indent_array_in_object=true, quote_keys=false) + '\n';
{
  'prometheus/recording_rules.yml': yaml(mixin.recordingRules),
  'prometheus/alerts.yml': yaml(mixin.prometheusAlerts),
  'grafana/nats-elect.json': std.manifestJsonEx(mixin.grafanaDashboard, '  ') + '\n',
}
