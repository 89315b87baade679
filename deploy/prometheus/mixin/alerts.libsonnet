// Critical: a role is led by nobody or by two, or tokens and writes can't be relied on. Someone has to act now. Warning:
// the roles are led; it costs the reserve. If all instances are affected, a critical alert of the role fires as well.
// Each alert compares one recorded series with one number, so that what it looks at can be looked at.
{
  local alert(name, severity, series, threshold, summary, description, wait=null) = {
    alert: name,
    expr: '%s %s' % [series, threshold],
    [if wait != null then 'for']: wait,
    labels: { severity: severity },
    annotations: {
      summary: summary,
      description: description,
      runbook_url: '%s#%s' % [$._config.runbook, std.asciiLower(name)],
    },
  },
  local fleet = std.join(', ', ['%s {{ $labels.%s }}' % [label, label] for label in $._config.fleet]),
  local group = 'Group {{ $labels.group }} (%s)' % fleet,
  local role = 'Role {{ $labels.role }} (%s)' % fleet,
  local here = 'Role {{ $labels.role }} on {{ $labels.%s }} (%s)' % [$._config.instance, fleet],
  local failures(kinds) = 'standing:election_failures:increase10m{error_type=~"%s"}' % kinds,

  prometheusAlerts:: {
    groups: [
      {
        name: 'nats-elect.roles',
        rules: [
          alert(
            'NatsElectRoleWithoutLeader', 'critical', 'role:election_leaderless:leases', '> 3',
            'Nobody leads {{ $labels.role }}.',
            role + ': no instance has known of a leader for {{ $value | humanize }} leases. After a crash it takes one.'
          ),
          alert(
            'NatsElectTwoLeaders', 'critical', 'role:election_leaders:sum', '> 1',
            '{{ $value }} instances say that they lead {{ $labels.role }}.',
            role + ': {{ $value }} instances reported leadership for a minute. Instances are not scraped in the same moment, so that a '
            + 'change of leaders can show two for as long as a scrape interval; that is what the minute is for.',
            '1m'
          ),
          alert(
            'NatsElectNobodyStands', 'critical', 'role:election_candidates:count', '< 1',
            'No instance could lead {{ $labels.role }}.',
            role + ': no instance stands, reaches NATS and is not paused, while some did within the last hour.',
            '2m'
          ),
          alert(
            'NatsElectNoStandby', 'warning', 'role:election_candidates:count', '< 2',
            'Nobody would take over {{ $labels.role }}.',
            role + ': {{ $value }} instance(s) could lead it. If the leader goes, nobody does.',
            '15m'
          ),
          alert(
            'NatsElectFrequentFailovers', 'warning', 'role:election_promotions:increase1h', '> 6',
            '{{ $labels.role }} changes hands all the time.',
            role + ': {{ $value | humanize }} terms began within an hour.'
          ),
          alert(
            'NatsElectFencingTokenWentBack', 'critical', 'role:election_fencing_token:regression', '> 0',
            'The fencing token of {{ $labels.role }} went back.',
            role + ': the leader\'s fencing token is {{ $value | humanize }} below one of the last hour. Systems that compare tokens refuse this '
            + 'leader, and may have accepted a stale one.',
            // Instances are not scraped in the same moment: two changes of leaders within an interval can look like this.
            '2m'
          ),
        ],
      },
      {
        name: 'nats-elect.observers',
        rules: [
          alert(
            'NatsElectObserverStale', 'critical', 'fleet:election_observed_stale_seconds:min', '> 60',
            'No `nats-elect serve` sees the bucket.',
            'What `nats-elect serve` shows of %s is {{ $value | humanizeDuration }} old. Alerts on roles and groups that rest on it alone are silent ' % fleet
            + 'meanwhile.',
            '1m'
          ),
        ],
      },
      {
        name: 'nats-elect.groups',
        rules: [
          alert(
            'NatsElectUnitsUnowned', 'critical', 'group:election_group_unowned:leases', '> 2',
            'Units of {{ $labels.group }} have no owner.',
            group + ': for {{ $value | humanize }} leases some of its units have had no living owner. After a crash they wait for one lease.',
            // So long an instance that starts may see no units.
            '15s'
          ),
          alert(
            'NatsElectUnitsIdle', 'critical', 'group:election_group_idle:leases', '> 5',
            'Units of {{ $labels.group }} have an owner that does not act.',
            group + ': for {{ $value | humanize }} leases an instance has owned a unit by its record, and run no handler for it.',
            // What a stranger wrote has to come of age first.
            '1m'
          ),
          alert(
            'NatsElectUnitHandlerOverrun', 'warning', 'instance:election_group_terms_ended:increase1h{cause="overrun"}', '> 0',
            'A handler of a unit of {{ $labels.group }} did not end.',
            group + ', instance {{ $labels.%s }}: {{ $value | humanize }} handlers within an hour did not end within the stop budget. '
            % $._config.instance
            + 'A unit whose handler blocks its thread waits for a lease.'
          ),
          alert(
            'NatsElectUnitHandlerFailing', 'warning',
            'instance:election_group_terms_ended:increase1h{cause=~"handler|unhealthy"}', '> 2',
            'Handlers of units of {{ $labels.group }} do not last.',
            group + ', instance {{ $labels.%s }}: {{ $value | humanize }} terms of units within an hour ended because the handler ended or was not healthy.'
            % $._config.instance
          ),
          alert(
            'NatsElectNoCoordinator', 'warning', 'group:election_group_coordinators:sum', '< 1',
            'Nobody plans for {{ $labels.group }}.',
            group + ': no member has planned for five minutes. Units do not move for balance.',
            '5m'
          ),
          alert(
            'NatsElectGroupImbalanced', 'warning', 'group:election_group_imbalance:excess', '> 0.1',
            'Units of {{ $labels.group }} do not move where they should.',
            group + ': for half an hour the most loaded member has had {{ $value | humanizePercentage }} of a fair share more than planned.',
            '30m'
          ),
          alert(
            'NatsElectMemberLeaseLow', 'warning', 'instance:election_member_lease_remaining:leases', '< 0.3',
            'The lease of member {{ $labels.%s }} is about to end, or has ended.' % $._config.instance,
            'Instance {{ $labels.%s }} (%s): for a minute {{ $value | humanizePercentage }} of its lease or less has been left. '
            % [$._config.instance, fleet] + 'When it ends, the instance loses all units that it owns.',
            '1m'
          ),
        ],
      },
      {
        name: 'nats-elect.leases',
        rules: [
          alert(
            'NatsElectSlowHeartbeats', 'warning', 'standing:election_heartbeat_budget_ratio:p99_5m', '> 0.8',
            'Heartbeats of {{ $labels.role }} take nearly all the time they have.',
            here + ': the slowest 1 % of heartbeats take {{ $value | humanizePercentage }} of the request timeout.',
            '5m'
          ),
          alert(
            'NatsElectLeaseSlackLow', 'warning', 'standing:election_lease_slack_ratio:p05_5m', '< 0.3',
            'The lease of {{ $labels.role }} is renewed at the last moment.',
            here + ': in one renewal of twenty only {{ $value | humanizePercentage }} of the lease was left.',
            '1m'
          ),
          alert(
            'NatsElectTimerLag', 'warning', 'standing:election_timer_lag:heartbeats', '> 0.5',
            '{{ $labels.%s }} is starved of processor time.' % $._config.instance,
            here + ': timers fire {{ $value | humanize }} heartbeats late.',
            '5m'
          ),
          alert(
            'NatsElectTokenValidationFailed', 'warning', 'standing:election_token_validation_failures:increase1h', '> 0',
            'Somebody else wrote to the key of {{ $labels.role }}.',
            here + ': {{ $value | humanize }} times within an hour its lease could not be proved, because another had written to the key.'
          ),
          alert(
            'NatsElectRegression', 'critical', failures('regression'), '> 0',
            'NATS lost confirmed writes of {{ $labels.role }}.',
            here + ': {{ $value | humanize }} times within ten minutes a confirmed write was no longer there. Two leaders were possible.'
          ),
          alert(
            'NatsElectFencedWritesRefused', 'warning', 'standing:election_fenced_writes:increase10m{status="superseded"}', '> 0',
            'Writes of a replaced leader of {{ $labels.role }} were refused.',
            here + ': {{ $value | humanize }} fenced writes within ten minutes came after a newer term had begun. Nothing was stored.'
          ),
        ],
      },
      {
        name: 'nats-elect.connection',
        rules: [
          alert(
            'NatsElectConnectionSuspended', 'warning', 'standing:election_connection_status:min', '< 2',
            '{{ $labels.%s }} cannot use NATS or its bucket.' % $._config.instance,
            here + ': the way to the bucket has not been whole for two minutes (1 suspended, 0 lost): it is {{ $value }}.',
            '2m'
          ),
          alert(
            'NatsElectConnectionLost', 'warning', 'standing:election_connection_status:min', '< 1',
            '{{ $labels.%s }} has lost NATS or its bucket.' % $._config.instance,
            here + ': the way to the bucket has been lost for five minutes. The instance can neither lead nor take over.',
            '5m'
          ),
          alert(
            'NatsElectCircuitOpen', 'warning', 'standing:election_circuit_open:max', '> 0',
            'Reads or writes of {{ $labels.%s }} for {{ $labels.role }} fail.' % $._config.instance,
            here + ': so many requests in a row have failed that they have been tried slowly for two minutes.',
            '2m'
          ),
          alert(
            'NatsElectPermissionDenied', 'warning', failures('permission_denied'), '> 0',
            'NATS forbids {{ $labels.%s }} what it needs for {{ $labels.role }}.' % $._config.instance,
            here + ': refused {{ $value | humanize }} times within ten minutes; what lasts is counted each 4 s.'
          ),
          alert(
            'NatsElectBucketUnfit', 'critical', failures('bucket_missing|bucket_unfit'), '> 0',
            'The bucket of {{ $labels.role }} is missing or does not fit.',
            here + ': {{ $labels.error_type }}, {{ $value | humanize }} times within ten minutes; what lasts is counted each 4 s.'
          ),
          alert(
            'NatsElectRequestsRejected', 'warning', failures('rejected|bucket_full'), '> 0',
            'NATS refuses requests for {{ $labels.role }}.',
            here + ': {{ $value | humanize }} requests within ten minutes were refused for a reason that is in the logs.'
          ),
          alert(
            'NatsElectWatchRestarting', 'warning', 'instance:election_watch_restarts:increase10m', '> 5',
            'The watch of {{ $labels.%s }} does not last.' % $._config.instance,
            'Instance {{ $labels.%s }} (%s): the watch of the bucket was restarted {{ $value | humanize }} times within ten minutes. '
            % [$._config.instance, fleet] + 'Meanwhile releases and handoffs are noticed late.'
          ),
        ],
      },
      {
        name: 'nats-elect.instances',
        rules: [
          alert(
            'NatsElectHandlerOverrun', 'critical', 'standing:election_handler_overruns:increase1h', '> 0',
            'A handler of {{ $labels.role }} ran on after its lease.',
            here + ': {{ $value | humanize }} handlers within an hour still ran when their lease had ended. Two may have run at once.'
          ),
          alert(
            'NatsElectHandlerFailing', 'warning',
            'standing:election_terms_ended:increase1h{cause=~"failed|panicked|unhealthy"}', '> 2',
            'The handler of {{ $labels.role }} does not last.',
            here + ': {{ $value | humanize }} terms within an hour ended because the handler {{ $labels.cause }}.'
          ),
          alert(
            'NatsElectCommandDown', 'critical', 'standing:election_command_down:avg5m', '> 0.5',
            'The command of {{ $labels.role }} does not run, although the role is led.',
            here + ': the command under `nats-elect exec` fails again and again. It waited to be started again for '
            + '{{ $value | humanizePercentage }} of the last five minutes.',
            // One failure soon after the start of `exec`, which has few samples then.
            '2m'
          ),
          alert(
            'NatsElectHealthChecksFailing', 'warning', 'standing:election_health_check_failures:increase10m', '> 1',
            'The leader of {{ $labels.role }} is not well.',
            here + ': {{ $value | humanize }} health checks failed within ten minutes.'
          ),
          alert(
            'NatsElectHandoffTimedOut', 'warning', 'standing:election_handoffs:increase1h{outcome="timed_out"}', '> 0',
            'A successor did not take {{ $labels.role }}.',
            here + ': {{ $value | humanize }} times within an hour the role was freed for an heir that was not seen to claim it.'
          ),
          alert(
            'NatsElectInstancePaused', 'warning', 'standing:election_paused:max', '> 0',
            '{{ $labels.%s }} has been paused for an hour.' % $._config.instance,
            here + ': it was paused more than an hour ago, and does not take part in elections until it is resumed.',
            '1h'
          ),
          alert(
            'NatsElectCompanionGone', 'warning', 'instance:election_last_will_ready:lost1h', '> 0',
            'A crash of {{ $labels.%s }} would take a whole lease.' % $._config.instance,
            'Instance {{ $labels.%s }} (%s) has `last_will`, and for five minutes no companion process that is ready to free its roles.'
            % [$._config.instance, fleet],
            '5m'
          ),
          alert(
            'NatsElectCompanionDying', 'warning', 'instance:election_last_will_ended:increase1h', '> 5',
            'The companion of {{ $labels.%s }} does not last.' % $._config.instance,
            'Instance {{ $labels.%s }} (%s): its companion process ended {{ $value | humanize }} times within an hour, and was started '
            % [$._config.instance, fleet] + 'anew each time. A crash in between takes a whole lease.'
          ),
          alert(
            'NatsElectActorCrashed', 'warning', failures('actor_crashed'), '> 0',
            'The election of {{ $labels.role }} crashed.',
            here + ': {{ $value | humanize }} times within ten minutes. It was started anew; this is a bug.'
          ),
          alert(
            'NatsElectUntrustedRecords', 'critical',
            'standing:election_untrusted_records:increase10m{reason!~"unsigned|expired"}', '> 0',
            'Records of {{ $labels.role }} are not what a trusted key signed.',
            here + ': {{ $value | humanize }} records within ten minutes ({{ $labels.reason }}).'
          ),
          alert(
            'NatsElectUnprovenRecords', 'warning', 'standing:election_untrusted_records:increase10m{reason=~"unsigned|expired"}', '> 10',
            'The leader of {{ $labels.role }} proves nothing.',
            here + ': {{ $value | humanize }} records within ten minutes were {{ $labels.reason }}. A new leader\'s first one is unsigned, '
            + 'and what is seen again after an outage has expired; but not time and again.'
          ),
        ],
      },
    ],
  },
}
