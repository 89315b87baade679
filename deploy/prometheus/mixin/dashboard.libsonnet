// The dashboard of a fleet, for Grafana 10 and later. Rows of panels flow from left to right; nothing is placed by hand.
{
  local role = $.role,
  local standing = $.standing,
  local source = { type: 'prometheus', uid: '${datasource}' },
  local instance = $._config.instance,
  // Legends: roles of the same name in several fleets are kept apart.
  local of_fleet = std.join(' · ', ['{{%s}}' % label for label in $._config.fleet]),
  local the_role = of_fleet + ' · {{role}}',
  local the_standing = '%s · {{%s}}' % [the_role, instance],
  local the_instance = '%s · {{%s}}' % [of_fleet, instance],
  local picked = ['%s=~"$%s"' % [label, label] for label in $._config.fleet],
  local matchers(labels, more) = std.join(', ', picked + ['%s=~"$%s"' % [label, label] for label in labels] + more),

  // Series of a metric, as the variables pick them.
  local of_role(metric, more=[]) = $.series(metric, matchers(['role'], more)),
  local of(metric, more=[]) = $.series(metric, matchers(['role', instance], more)),
  local of_instance(metric, more=[]) = $.series(metric, matchers([instance], more)),
  // What instances tell of themselves, or `nats-elect serve` from the outside.
  local either(observed, matchers) = $.series('', std.join(', ', ['__name__=~"election_standing|election_observed_%s"' % observed] + matchers)),
  // Recorded series bear no labels but ours.
  local rec_role(metric, more=[]) = '%s{%s}' % [metric, matchers(['role'], more)],
  local rec(metric, more=[]) = '%s{%s}' % [metric, matchers(['role', instance], more)],
  local rec_instance(metric, more=[]) = '%s{%s}' % [metric, matchers([instance], more)],

  // Groups are not among the variables: there are few.
  local of_group(metric) = $.series(metric, matchers([instance], [])),
  local rec_group(metric) = '%s{%s}' % [metric, matchers([], [])],
  local group = $.group,
  local the_group = of_fleet + ' · {{group}}',
  local the_member = '%s · {{%s}}' % [the_group, instance],

  local rate(series, by) = 'sum by (%s) (rate(%s[$__rate_interval]))' % [by, series],
  local grown(series, by) = 'sum by (%s) (increase(%s[$__rate_interval]))' % [by, series],
  local quantile(q, metric) = 'histogram_quantile(%s, %s)' % [q, rate(of(metric + '_bucket'), role + ', le')],

  local target(expr, legend='') = { datasource: source, expr: expr, legendFormat: legend },
  local instant(expr, legend='') = target(expr, legend) + { instant: true, range: false },

  local panel(type, title, description, targets, width, height, defaults={}, options={}) = {
    type: type,
    title: title,
    description: description,
    datasource: source,
    targets: [targets[i] { refId: std.char(65 + i) } for i in std.range(0, std.length(targets) - 1)],
    width:: width,
    height:: height,
    fieldConfig: { defaults: defaults, overrides: [] },
    options: options,
  },
  local steps(pairs) = { mode: 'absolute', steps: [{ value: pair[0], color: pair[1] } for pair in pairs] },
  local value(text, color, index) = { text: text, color: color, index: index },
  local mapped(values) = [{ type: 'value', options: values }],

  local stat(title, description, expr, thresholds, unit='none') = panel(
    'stat', title, description, [instant(expr)], 4, 4,
    { unit: unit, thresholds: steps(thresholds), color: { mode: 'thresholds' } },
    { reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false }, colorMode: 'background', graphMode: 'none' }
  ),
  local graph(title, description, targets, unit='none', width=12, style={}) = panel(
    'timeseries', title, description, targets, width, 8,
    { unit: unit, min: 0, custom: { lineWidth: 1, fillOpacity: 8, showPoints: 'never' } + style },
    { legend: { displayMode: 'table', placement: 'bottom', calcs: ['lastNotNull', 'max'] }, tooltip: { mode: 'multi', sort: 'desc' } }
  ),
  local bars = { drawStyle: 'bars', fillOpacity: 60, stacking: { mode: 'normal', group: 'A' } },
  local timeline(title, description, targets, mappings, height=8, width=24) = panel(
    'state-timeline', title, description, targets, width, height,
    { mappings: mappings, color: { mode: 'fixed', fixedColor: 'transparent' }, custom: { lineWidth: 0, fillOpacity: 80 } },
    { mergeValues: true, showValue: 'auto', alignValue: 'left', rowHeight: 0.85, legend: { showLegend: false, displayMode: 'list', placement: 'bottom' } }
  ),
  local alerts = {
    type: 'alertlist',
    title: 'Alerts',
    description: 'What fires or is about to, by the rules of deploy/prometheus.',
    datasource: source,
    width:: 24,
    height:: 6,
    options: {
      viewMode: 'list',
      alertName: 'NatsElect',
      maxItems: 30,
      sortOrder: 3,
      groupMode: 'default',
      stateFilter: { firing: true, pending: true, noData: false, normal: false, 'error': true },
    },
  },
  local row(title, panels) = { title: title, panels: panels },

  local rows = [
    row('Now', [
      stat('Roles with one leader', 'Roles that exactly one instance leads.', 'count(%s == 1) or vector(0)' % rec_role('role:election_leaders:sum'), [[null, 'blue']]),
      stat('Roles without leader', 'Roles of which no instance knows a leader, or of which none is left (for an hour).', 'count(%s > 0 or %s == 0 unless %s > 0) or vector(0)' % std.map(rec_role, ['role:election_leaderless_seconds:max', 'role:election_candidates:count', 'role:election_leaders:sum']), [[null, 'green'], [1, 'red']]),
      stat('Roles with two leaders', 'Two instances say that they lead. For as long as a scrape interval that is how a change of leaders looks.', 'count(%s > 1) or vector(0)' % rec_role('role:election_leaders:sum'), [[null, 'green'], [1, 'red']]),
      stat('Fewest candidates', 'Of the role that has the fewest instances that could lead it, the leader included.', 'min(%s)' % rec_role('role:election_candidates:count'), [[null, 'red'], [1, 'orange'], [2, 'green']]),
      stat('Least lease slack', 'The share of the lease that was left at the latest renewals, of the worst role (5th percentile, 5 minutes).', 'min(%s)' % rec('standing:election_lease_slack_ratio:p05_5m'), [[null, 'red'], [0.3, 'orange'], [0.5, 'green']], 'percentunit'),
      stat('Instances', 'Instances that are scraped; if there are none, those that answer `nats-elect serve`.', 'count(count by (%s) (%s)) or sum(max by (%s, version) (%s))' % [$.instance, of_instance('election_info'), std.join(', ', $._config.fleet), $.series('election_observed_instances', std.join(', ', picked))], [[null, 'blue']]),
      alerts,
    ]),
    row('Who leads what', [
      timeline(
        'Leaders', 'One lane for each role on each instance.', [target('max by (%s) (%s or %s)' % [standing, of('election_is_leader'), of('election_observed_leader_info')], the_standing)],
        mapped({ '0': value('', 'transparent', 0), '1': value('leads', 'green', 1) }), 12
      ),
      timeline(
        'Leaders of each role', 'How many instances say that they lead it.', [target(rec_role('role:election_leaders:sum'), the_role)],
        mapped({ '0': value('none', 'red', 0), '1': value('one', 'green', 1) }) + [{ type: 'range', options: { from: 2, to: null, result: value('more than one', 'purple', 2) } }], 6
      ),
    ]),
    row('Failovers', [
      graph('Terms that began', 'Promotions of any instance.', [target(grown(of('election_transitions_total', ['to_state="leader"']), role), the_role)], style=bars),
      graph('Terms that ended, by cause', 'Why leaders changed, as far as it was scraped before the process ended: rollouts and crashes mostly are not. `nats-elect history` has the orderly ends.', [target(grown(of('election_terms_ended_total'), 'cause'), '{{cause}}')], style=bars),
      graph('How long failovers took', 'From the last sign of a leader to the next one\'s claim, as the instances saw it, within the last hour.', [target(rec_role('role:election_failover_gap_seconds:p95_1h'), the_role + ' p95')], 's'),
      graph('Stages of failovers', 'Mean on the instances that won. Detection is a lease after a crash and next to nothing after a release, claim and fence are round trips to NATS, start is the runtime of the handlers.', [
        target('%s / %s' % [grown(of('election_failover_stage_seconds_sum'), 'stage'), grown(of('election_failover_stage_seconds_count'), 'stage')], '{{stage}}'),
      ], 's'),
      graph('Terms that began, by how the role was found', 'Released and handed over: the leader before ended in order. Expired: its lease was waited for.', [target(grown(of('election_terms_started_total'), 'found'), '{{found}}')], style=bars),
      graph('Time without a leader', 'For how long no instance has known of one, and the lease for comparison.', [
        target(rec_role('role:election_leaderless_seconds:max'), the_role),
        target('max(%s)' % rec_role('role:election_lease_ttl_seconds:max'), 'longest lease'),
      ], 's'),
      graph('Length of terms', 'Mean of the terms that ended.', [
        target('%s / %s' % [grown(of('election_leader_duration_seconds_sum'), role), grown(of('election_leader_duration_seconds_count'), role)], the_role),
      ], 's'),
      graph('Changes of state', 'Of all instances, by the state that they came to.', [target(grown(of('election_transitions_total'), 'to_state'), '{{to_state}}')], style=bars),
    ]),
    row('Renewals', [
      graph('Renewal latency', 'From sending a heartbeat to its answer.', [
        target(quantile('0.5', 'election_heartbeat_duration_seconds'), the_role + ' p50'),
        target(quantile('0.99', 'election_heartbeat_duration_seconds'), the_role + ' p99'),
      ], 's'),
      graph('Renewal latency against its budget', 'The slowest 1 % of heartbeats, as a share of the request timeout: at 100 % they fail.', [
        target(rec('standing:election_heartbeat_budget_ratio:p99_5m'), the_standing),
      ], 'percentunit'),
      graph('Lease slack', 'The share of the lease that was left when it was renewed (5th percentile): at 0 it would have ended.', [
        target(rec('standing:election_lease_slack_ratio:p05_5m'), the_standing),
      ], 'percentunit'),
      graph('Lease remaining', 'Of the leaders, at each scrape.', [
        target('max by (%s) (%s or %s)' % [role, of('election_lease_remaining_seconds'), of_role('election_observed_lease_remaining_seconds')], the_role),
      ], 's'),
      graph('Heartbeats by outcome', 'Each second.', [target(rate(of('election_heartbeat_duration_seconds_count'), 'status'), '{{status}}')], 'ops'),
      panel('heatmap', 'Renewal latency, all', 'All heartbeats of the roles that are picked.', [
        target(rate(of('election_heartbeat_duration_seconds_bucket'), 'le'), '{{le}}') + { format: 'heatmap' },
      ], 12, 8, {}, { calculate: false, yAxis: { unit: 's' }, color: { mode: 'scheme', scheme: 'Blues', steps: 32 }, cellGap: 1, rowsFrame: { layout: 'le' } }),
    ]),
    row('Claims and handoffs', [
      graph('Claims by outcome', 'Of all instances. `conflict` is a race that another won.', [target(grown(of('election_acquire_attempts_total'), 'status'), '{{status}}')], width=8, style=bars),
      graph('Handoffs by outcome', 'Roles that were freed in the name of an heir.', [target(grown(of('election_handoffs_total'), 'outcome'), '{{outcome}}')], width=8, style=bars),
      graph('Handoffs refused, by reason', 'A named successor did not take the role.', [target(grown(of('election_handoffs_refused_total'), 'reason'), '{{reason}}')], width=8, style=bars),
    ]),
    row('Fencing and trust', [
      graph('Fenced writes by outcome', '`superseded` is a write of a replaced leader: refused by the server.', [target(rate(of('election_fenced_writes_total'), 'status'), '{{status}}')], 'ops', 8),
      graph('Fencing tokens that went back', 'By how much the leader\'s token is below the highest of the last hour: 0, but for a scrape interval as leaders change.', [
        target(rec_role('role:election_fencing_token:regression'), the_role),
      ], width=8),
      graph('Proofs that failed, records not trusted', 'Somebody else wrote to a role\'s key.', [
        target(grown(of('election_token_validation_failures_total'), role), the_role + ': proof failed'),
        target(grown(of('election_untrusted_records_total'), role + ', reason'), the_role + ': {{reason}}'),
      ], width=8, style=bars),
    ]),
    row('Groups', [
      graph('Units of each member', 'Units whose handlers run there and may act.', [
        target('max by (%s, %s) (%s)' % [group, instance, of_group('election_group_units')], the_member),
      ]),
      graph('Units without a living owner', 'As the members see them, or `nats-elect serve` where none is scraped. After a crash for some heartbeats, else 0.', [
        target(rec_group('group:election_group_units_unowned:min'), the_group),
      ]),
      graph('Leases that an owner has not acted for', 'The longest of the units that have an owner by their record and no handler that runs. For a moment as units move, longer while a group grows or a handler fails again and again.', [
        target(rec_group('group:election_group_idle:leases'), the_group),
      ]),
      graph('Imbalance', 'By how much the most loaded member is above its fair share, and how much of that the planned moves would take away.', [
        target(rec_group('group:election_group_imbalance_ratio:max'), the_group),
        target(rec_group('group:election_group_imbalance:excess'), the_group + ': to be moved'),
      ], 'percentunit'),
      graph('Terms on units that ended, by cause', '`given`: the unit goes to another member. `drained`: the member leaves. `handler`, `overrun`, `lost`: it did not end in order.', [
        target(grown(of_group('election_group_terms_ended_total'), group + ', cause'), the_group + ': {{cause}}'),
      ], style=bars),
      graph('Members and coordinators', 'Members that take units, as each sees them, and how many say that they plan: one.', [
        target('min by (%s) (%s)' % [group, of_group('election_group_members')], the_group + ': members'),
        target(rec_group('group:election_group_coordinators:sum'), the_group + ': coordinators'),
      ]),
      graph('Lease of each member', 'The share of its lease that is left, at each scrape. At 0 it has lost its units.', [
        target(rec_instance('instance:election_member_lease_remaining:leases'), the_instance),
      ], 'percentunit'),
    ]),
    row('Instances', [
      timeline(
        'Connection', 'What of NATS each role on each instance can rely on.', [target('min by (%s) (%s)' % [standing, of('election_connection_status')], the_standing)],
        mapped({ '0': value('lost', 'red', 0), '1': value('suspended', 'orange', 1), '2': value('connected', 'green', 2) }), 10, 12
      ),
      timeline(
        'Trouble', 'Circuit breakers that are open, and instances that are paused.', [
          target(rec('standing:election_circuit_open:max'), 'circuit: ' + the_standing),
          target(rec('standing:election_paused:max'), 'paused: ' + the_standing),
        ],
        mapped({ '0': value('', 'transparent', 0), '1': value('yes', 'orange', 1) }), 10, 12
      ),
      graph('Failures by kind', 'Requests and others.', [target(grown(of('election_failures_total'), 'error_type'), '{{error_type}}')], style=bars),
      graph('Timer lag', 'How late the timers of elections fire (p99): processes that are starved or were paused.', [
        target(rec('standing:election_timer_lag_seconds:p99_5m'), the_standing),
      ], 's'),
      graph('Handlers', 'Health checks that failed, and handlers that ran on after their lease.', [
        target(grown(of('election_health_check_failures_total'), role), the_role + ': health check failed'),
        target(grown(of('election_handler_overruns_total'), role), the_role + ': overrun'),
      ], style=bars),
      graph('Companions of `last_will`', 'Instances with a companion that is ready to free their roles, and ends of companions within an hour.', [
        target('sum(%s)' % of_instance('election_last_will_ready'), 'ready'),
        target(rec_instance('instance:election_last_will_ended:increase1h'), the_instance + ': ended'),
      ]),
      graph('Watch restarts', 'Within ten minutes.', [target(rec_instance('instance:election_watch_restarts:increase10m'), the_instance)]),
      graph('Standing', 'Instances that have each role, and those of them that know its leader.', [
        target('sum by (%s) (%s)' % [role, of('election_standing')], the_role + ': stand'),
        target('sum by (%s) (%s)' % [role, of('election_leader_known')], the_role + ': know the leader'),
      ]),
      graph('Versions', 'Of this crate, by the number of instances.', [target('count by (version) (%s)' % of_instance('election_info'), '{{version}}')]),
    ]),
  ],

  // From left to right, in lines as high as their highest panel: where the next one goes, the height of its line, those placed.
  local place(state, panel) =
    local wraps = state[0] + panel.width > 24;
    local x = if wraps then 0 else state[0];
    local y = if wraps then state[1] + state[2] else state[1];
    local placed = state[3];
    [
      x + panel.width,
      y,
      if wraps then panel.height else std.max(state[2], panel.height),
      placed + [panel { id: std.length(placed) + 1, gridPos: { x: x, y: y, w: panel.width, h: panel.height } }],
    ],
  local header(title) = { type: 'row', title: title, collapsed: false, panels: [], width:: 24, height:: 1 },
  local flow = std.foldl(place, std.flattenArrays([[header(row.title)] + row.panels for row in rows]), [0, 0, 0, []])[3],

  local variable(label, query) = {
    type: 'query',
    name: label,
    label: label,
    datasource: source,
    query: { query: 'label_values(%s, %s)' % [query, label], refId: label },
    definition: 'label_values(%s, %s)' % [query, label],
    includeAll: true,
    multi: true,
    allValue: '.*',
    current: { selected: true, text: ['All'], value: ['$__all'] },
    options: [],
    refresh: 2,
    sort: 1,
    hide: 0,
    regex: '',
    skipUrlSync: false,
  },

  grafanaDashboard:: {
    uid: $._config.dashboard.uid,
    title: $._config.dashboard.title,
    description: 'Who leads what in a fleet of nats-elect, why it changed, and how close it came. Needs the recording rules of deploy/prometheus.',
    tags: ['nats-elect', 'leader-election'],
    schemaVersion: 38,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: $._config.dashboard.refresh,
    timezone: 'browser',
    time: { from: 'now-1h', to: 'now' },
    annotations: { list: [] },
    links: [],
    templating: {
      list: [
        { type: 'datasource', name: 'datasource', label: 'Prometheus', query: 'prometheus', current: {}, hide: 0, includeAll: false, multi: false, options: [], refresh: 1, regex: '', skipUrlSync: false },
      ] + [variable(label, either('leader_known', [])) for label in $._config.fleet] + [
        variable('role', either('leader_known', picked)),
        variable(instance, either('leader_info', [matchers(['role'], [])])),
      ],
    },
    panels: flow,
  },
}
