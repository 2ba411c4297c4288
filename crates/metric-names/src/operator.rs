//! What an operator exposes.

metric_names! {
    /// What an operator exposes.
    OPERATOR:
    RECONCILES = Counter "cairn_operator_reconciles_total" ["result"] "Reconciles of applications: ok, or the reason of the error.";
    PLAN_DURATION = Histogram "cairn_operator_plan_seconds" [] "Wall clock of one search.";
    PLANS = Counter "cairn_operator_plans_total" ["strategy", "stopped_by"] "Plans by strategy and what ended the search.";
    SEARCHES = Counter "cairn_operator_searches_total" ["why"] "Searches that ended, by what made them due; chance and second-look are looks in the background at what could merely be better.";
    MOVES = Counter "cairn_operator_moves_total" ["why"] "Actors that a decision put elsewhere, by what made its search due.";
    REPLANS = Counter "cairn_operator_replans_total" ["reason"] "Plans made again before they were committed: overtaken, as the world had changed.";
    PLANS_JUDGED = Counter "cairn_operator_plans_judged_total" ["judged"] "Plans by what clingo judged of them before they were committed: all, parts, constraints or none; mismatch where it did not agree, which costs the plan.";
    WRITES = Counter "cairn_operator_writes_total" ["kind", "verb"] "Writes to the API server by kind and verb.";
    ACTORS = Gauge "cairn_operator_actors" ["state"] "Actors of all applications: wanted, placed, running or ready.";
    POD_INFO = Info "cairn_pod_info" ["uid", "namespace", "pod", "application", "actor", "node", "unit"] "A pod of an actor, to join with series that have its uid; by the operator that leads.";
    LEADING = Gauge "cairn_operator_leading" [] "1 while this operator holds the lease.";
}
