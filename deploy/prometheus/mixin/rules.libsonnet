// What dashboards and alerts need. Each rule keeps the labels that its name begins with: of a fleet (`fleet:`), of a role in it
// (`role:`), of a group (`group:`), of a role on one instance (`standing:`), of an instance (`instance:`).
{
  local s = $.series,
  local role = $.role,
  local standing = $.standing,
  local group = $.group,
  local instance = $.instance,
  // What members tell that have not left their groups, and of them those whose lease holds.
  local ofMembers(metric) = '(%s and on (%s) %s > 0)' % [s(metric), instance, s('election_member_lease_ttl_seconds')],
  local ofHolders(metric) = '(%s and on (%s) %s > 0)' % [s(metric), instance, s('election_member_lease_remaining_seconds')],
  // The least that a member with a lease sees: one that has just started, or is cut off, sees more. If none has a lease,
  // the most.
  local seen(metric) = 'min by (%s) %s or max by (%s) %s' % [group, ofHolders(metric), group, ofMembers(metric)],
  // What `serve` tells of groups that had a living member within an hour. A group that all have left stays in the bucket.
  local observed(how, series) = '%s by (%s) (%s and max_over_time(%s[1h]) > 0)' % [how, group, series, s('election_observed_group_members')],
  // Of roles that this instance has not left.
  local here(metric) = '(%s and %s == 1)' % [s(metric), s('election_standing')],
  local grown(metric, window, keep=standing, matchers='') =
    'sum by (%s) (increase(%s[%s]))' % [keep, s(metric, matchers), window],
  local quantile(q, metric) =
    'histogram_quantile(%s, sum by (%s, le) (rate(%s[5m])))' % [q, standing, s(metric + '_bucket')],
  local rule(record, expr) = { record: record, expr: expr },
  // The highest of what several tell of a role: instances of themselves, and `nats-elect serve` (`election_observed_…`) from
  // the outside. Any of them may be missing, and none is added to another.
  local most(exprs) = 'max by (%s) (%s)' % [
    role,
    std.join(' or ', ['label_replace(%s, "told", "%d", "", "")' % [exprs[i], i] for i in std.range(0, std.length(exprs) - 1)]),
  ],
  // What `serve` tells of roles that somebody led or could lead within an hour. A role that all have left stays in the bucket.
  local wanted(metric) = '(%s and (max_over_time(%s[1h]) > 0 or max_over_time(%s[1h]) > 0))'
                         % [s(metric), s('election_observed_candidates'), s('election_observed_leader_known')],

  recordingRules:: {
    groups: [
      {
        name: 'nats-elect.roles',
        [if $._config.interval != null then 'interval']: $._config.interval,
        rules: [
          rule('role:election_leaders:sum', most([
            'sum by (%s) (%s)' % [role, s('election_is_leader')],
            wanted('election_observed_leader_known'),
          ])),
          // Who stands, reaches NATS and is not paused. Instances that do not tell of pauses are not paused. A role that
          // nobody has any more counts zero for an hour.
          rule(
            'role:election_candidates:count',
            '%s or 0 * max by (%s) (max_over_time(%s[1h]) == 1)' % [
              most([
                'count by (%s) ((%s == 2 and %s == 1) unless %s == 1)'
                % [role, s('election_connection_status'), s('election_standing'), s('election_paused')],
                wanted('election_observed_candidates'),
              ]),
              role,
              s('election_standing'),
            ]
          ),
          rule(
            'role:election_lease_ttl_seconds:max',
            most([s('election_lease_ttl_seconds'), wanted('election_observed_lease_ttl_seconds')])
          ),
          // The longest that an instance in reach of NATS has known of none: one that has just started knows less. 0 while
          // anybody knows one. If none is in reach, what they agree on.
          rule(
            'role:election_leaderless_seconds:max',
            '(%s or min by (%s) %s) * (1 - %s)' % [
              most([
                '(%s and %s == 2)' % [here('election_leaderless_seconds'), s('election_connection_status')],
                wanted('election_observed_leaderless_seconds'),
              ]),
              role,
              here('election_leaderless_seconds'),
              most([here('election_leader_known'), wanted('election_observed_leader_known')]),
            ]
          ),
          rule(
            'role:election_leaderless:leases',
            'role:election_leaderless_seconds:max / role:election_lease_ttl_seconds:max'
          ),
          // As counted by those who led or by one who saw it, whichever is more: what ends with its process before the next
          // scrape has counted for nothing.
          rule(
            'role:election_promotions:increase1h',
            most([
              grown('election_transitions_total', '1h', role, 'to_state="leader"'),
              'increase(%s[1h])' % s('election_failover_gap_seconds_count'),
              'sum without (cause) (increase(%s[1h]))' % s('election_observed_changes_total', 'cause=~"claimed|handed_over"'),
            ])
          ),
          rule(
            'role:election_failover_gap_seconds:p95_1h',
            'histogram_quantile(0.95, sum by (%s, le) (rate(%s[1h])))' % [role, s('election_failover_gap_seconds_bucket')]
          ),
          // By how much the leader's fencing token is below the highest of the last hour.
          rule(
            'role:election_fencing_token:regression',
            '%s - %s' % [
              most(['max_over_time(%s[1h])' % s(it) for it in ['election_fencing_token_sequence', 'election_observed_fencing_token_sequence']]),
              most([
                '(%s and %s == 1)' % [s('election_fencing_token_sequence'), s('election_is_leader')],
                s('election_observed_fencing_token_sequence'),
              ]),
            ]
          ),
        ],
      },
      {
        name: 'nats-elect.observers',
        [if $._config.interval != null then 'interval']: $._config.interval,
        rules: [
          // `nats-elect serve`: one of several that sees the bucket is enough.
          rule('fleet:election_observed_stale_seconds:min', 'min by (%s) (%s)' % [$.fleet, s('election_observed_stale_seconds')]),
        ],
      },
      {
        name: 'nats-elect.groups',
        [if $._config.interval != null then 'interval']: $._config.interval,
        rules: [
          rule('group:election_group_units:sum', 'sum by (%s) (%s)' % [group, s('election_group_units')]),
          // Where no member is scraped, as `nats-elect serve` sees it: one that is cut off sees no owners, and one that has
          // just started does not know for how long.
          rule(
            'group:election_group_units_unowned:min',
            '%s or %s' % [
              seen('election_group_units_unowned'),
              observed('min', 'sum without (standing) (%s)' % s('election_observed_group_units_unowned')),
            ]
          ),
          rule(
            'group:election_group_unowned_seconds:min',
            '%s or %s' % [seen('election_group_unowned_seconds'), observed('max', s('election_observed_group_unowned_seconds'))]
          ),
          // In leases of members. Those of one group may differ; the longest counts.
          rule(
            'group:election_group_unowned:leases',
            'group:election_group_unowned_seconds:min / on (%s) group_left max by (%s) (%s > 0 or max_over_time(%s[1h]))'
            % [$.fleet, $.fleet, s('election_member_lease_ttl_seconds'), s('election_observed_member_lease_ttl_seconds')]
          ),
          // Of the instance that owns the unit by its record.
          rule(
            'group:election_group_idle:leases',
            'max by (%s) (%s / on (%s) group_left () (%s > 0))'
            % [group, s('election_group_idle_seconds'), instance, s('election_member_lease_ttl_seconds')]
          ),
          rule('instance:election_group_terms_ended:increase1h', grown('election_group_terms_ended_total', '1h', instance + ', group, cause')),
          // A group that nobody has any more counts zero for an hour.
          rule(
            'group:election_group_coordinators:sum',
            'sum by (%s) %s or 0 * max by (%s) (max_over_time(%s[1h]) > 0)'
            % [group, ofMembers('election_group_coordinator'), group, s('election_group_members')]
          ),
          rule('group:election_group_imbalance_ratio:max', 'max by (%s) (%s)' % [group, s('election_group_imbalance_ratio')]),
          // By how much the planned moves would lower it, by the coordinator.
          rule(
            'group:election_group_imbalance:excess',
            'max by (%s) (%s - %s)' % [group, s('election_group_imbalance_ratio'), s('election_group_imbalance_planned_ratio')]
          ),
          // Only of instances that have not left their groups.
          rule(
            'instance:election_member_lease_remaining:leases',
            'min by (%s) (%s / (%s > 0))' % [instance, s('election_member_lease_remaining_seconds'), s('election_member_lease_ttl_seconds')]
          ),
        ],
      },
      {
        name: 'nats-elect.leases',
        [if $._config.interval != null then 'interval']: $._config.interval,
        rules: [
          rule('standing:election_heartbeat_duration_seconds:p50_5m', quantile('0.5', 'election_heartbeat_duration_seconds')),
          rule('standing:election_heartbeat_duration_seconds:p99_5m', quantile('0.99', 'election_heartbeat_duration_seconds')),
          rule('standing:election_heartbeat_budget_ratio:p99_5m', quantile('0.99', 'election_heartbeat_budget_ratio')),
          rule('standing:election_lease_slack_ratio:p05_5m', quantile('0.05', 'election_lease_slack_ratio')),
          rule('standing:election_timer_lag_seconds:p99_5m', quantile('0.99', 'election_timer_lag_seconds')),
          rule(
            'standing:election_timer_lag:heartbeats',
            'standing:election_timer_lag_seconds:p99_5m / max by (%s) (%s)' % [standing, s('election_heartbeat_interval_seconds')]
          ),
        ],
      },
      {
        name: 'nats-elect.instances',
        [if $._config.interval != null then 'interval']: $._config.interval,
        rules: [
          rule('standing:election_connection_status:min', 'min by (%s) %s' % [standing, here('election_connection_status')]),
          rule('standing:election_circuit_open:max', 'max by (%s) (%s)' % [standing, s('election_circuit_open')]),
          // Instances that do not tell of pauses, or have left the role, are not paused.
          rule(
            'standing:election_paused:max',
            'max by (%s) (%s or 0 * %s)' % [standing, here('election_paused'), s('election_standing')]
          ),
          // Of commands under `nats-elect exec`: the share of the time that they waited to be started again.
          rule(
            'standing:election_command_down:avg5m',
            'max by (%s) (avg_over_time(%s[5m]))' % [standing, s('election_command_down')]
          ),
          // 1 where a companion was ready within the last hour and is not now. Without `last_will` none ever is.
          rule(
            'instance:election_last_will_ready:lost1h',
            'max by (%s) (max_over_time(%s[1h]) - %s)' % [instance, s('election_last_will_ready'), s('election_last_will_ready')]
          ),
          rule('instance:election_last_will_ended:increase1h', grown('election_last_will_ended_total', '1h', instance)),
          rule('instance:election_watch_restarts:increase10m', grown('election_watch_restarts_total', '10m', instance)),
        ],
      },
      {
        name: 'nats-elect.counts',
        [if $._config.interval != null then 'interval']: $._config.interval,
        rules: [
          rule('standing:election_failures:increase10m', grown('election_failures_total', '10m', standing + ', error_type')),
          rule('standing:election_acquire_attempts:increase10m', grown('election_acquire_attempts_total', '10m', standing + ', status')),
          rule('standing:election_terms_ended:increase1h', grown('election_terms_ended_total', '1h', standing + ', cause')),
          rule('standing:election_handoffs:increase1h', grown('election_handoffs_total', '1h', standing + ', outcome')),
          rule('standing:election_handler_overruns:increase1h', grown('election_handler_overruns_total', '1h')),
          rule('standing:election_health_check_failures:increase10m', grown('election_health_check_failures_total', '10m')),
          rule('standing:election_token_validation_failures:increase1h', grown('election_token_validation_failures_total', '1h')),
          rule('standing:election_fenced_writes:increase10m', grown('election_fenced_writes_total', '10m', standing + ', status')),
          rule('standing:election_untrusted_records:increase10m', grown('election_untrusted_records_total', '10m', standing + ', reason')),
        ],
      },
    ],
  },
}
