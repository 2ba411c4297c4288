//! Metrics of the operator.

metric_names! {
    /// All metrics of the operator.
    OPERATOR:
    RECONCILES = Counter "cairn_operator_reconciles_total" ["result"] "Reconciles of applications by result: ok, or the reason of the error.";
    PLAN_DURATION = Histogram "cairn_operator_plan_seconds" [] "Wall-clock duration of a search.";
    PLANS = Counter "cairn_operator_plans_total" ["strategy", "stopped_by"] "Plans by strategy and by why the search stopped.";
    SEARCHES = Counter "cairn_operator_searches_total" ["why"] "Completed searches by trigger; capacity-freed and resume are background searches for improvements.";
    MOVES = Counter "cairn_operator_moves_total" ["why"] "Actors moved by a decision, by the trigger of its search.";
    MOVE_STEP = Histogram "cairn_operator_move_step_seconds" ["step"] "Duration of each step of moves that are made for a gain: Decided, Stopping, Stopped, Starting or Running.";
    MOVE_OUTCOMES = Counter "cairn_operator_move_outcomes_total" ["outcome"] "Decisions with moves that were made for a gain, by outcome: paid, less (below half of the expected gain), loss or superseded (not judged, as another such decision was made or what moved is gone); and the moves that were withdrawn.";
    GAIN_RATIO = Gauge "cairn_operator_gain_ratio" ["namespace", "application", "kind"] "Gain of the last moves of an application that were made for a gain: expected, and realised on the load that was measured afterwards.";
    REPLANS = Counter "cairn_operator_replans_total" ["reason"] "Plans discarded before they were committed: overtaken by a change of the cluster.";
    PLANS_JUDGED = Counter "cairn_operator_plans_judged_total" ["judged"] "Plans by what clingo verified before they were committed: all, parts, scaled, constraints, scaled-constraints or none; mismatch if it disagreed, or a claim of optimality was refuted, and the plan was discarded.";
    WATCH_ERRORS = Counter "cairn_operator_watch_errors_total" ["kind"] "Failed list and watch requests by kind of the objects; each is retried with backoff.";
    WRITES = Counter "cairn_operator_writes_total" ["kind", "verb"] "Writes to the API server by kind and verb.";
    ACTORS = Gauge "cairn_operator_actors" ["state"] "Actors of all applications by state: wanted, placed, running or ready.";
    AGENT_LEASE_EXPIRED = Gauge "cairn_operator_agent_lease_expired" ["node"] "1 for each node of the cluster whose agent's Lease expired; exposed by the leader.";
    POD_INFO = Info "cairn_pod_info" ["uid", "namespace", "pod", "application", "actor", "node", "unit"] "A pod of an actor, to join with series that have its uid; exposed by the leader.";
    LEADING = Gauge "cairn_operator_leading" [] "1 if this operator is the leader, otherwise 0.";
    TICK_DURATION = Histogram "cairn_operator_tick_seconds" [] "Duration of reading one window of counters from Prometheus; only with counters.prometheusUrl.";
    COUNTERS_AGE = Gauge "cairn_operator_counters_age_seconds" ["window"] "Time since Prometheus last answered for a window of this length, such as 30s; exposed by the leader with counters.prometheusUrl.";
    COUNTERS_REFUSED = Counter "cairn_operator_counters_refused_total" ["reason"] "Refused samples by reason: value, unknown-pod, actor, peer or pairs; or windows without data: truncated or unanswered; only with counters.prometheusUrl.";
    LOAD_DECISIONS = Counter "cairn_operator_load_decisions_total" ["verdict"] "Searches for moves for measured load by verdict: pays, small, uncertain, few-windows or no-gain; only with counters.prometheusUrl.";
    APPLICATION_COST = Gauge "cairn_operator_application_cost" ["namespace", "application", "level", "plan"] "Cost of an application for the measured load at its last search, by objective level: of what runs (plan running) and of the best known plan (plan best); exposed by the leader with counters.prometheusUrl.";
}
