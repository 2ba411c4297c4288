//! Every metric that the operator exposes: names are an interface.
//!
//! A series is made through a name of this file, so nothing is exposed that is not here. `docs/metrics.md` has the
//! table; a test keeps it so.

use crds::metric_names;

metric_names! {
    /// What an operator exposes.
    OPERATOR:
    RECONCILES = Counter "cairn_operator_reconciles_total" ["result"] "Reconciles of applications: ok, or the reason of the error.";
    PLAN_DURATION = Histogram "cairn_operator_plan_seconds" [] "Wall clock of one search.";
    PLANS = Counter "cairn_operator_plans_total" ["strategy", "stopped_by"] "Plans by strategy and what ended the search.";
    REPLANS = Counter "cairn_operator_replans_total" ["reason"] "Plans made again before they were committed: overtaken, as the world had changed.";
    WRITES = Counter "cairn_operator_writes_total" ["kind", "verb"] "Writes to the API server by kind and verb.";
    ACTORS = Gauge "cairn_operator_actors" ["state"] "Actors of all applications: wanted, placed or running.";
    LEADING = Gauge "cairn_operator_leading" [] "1 while this operator holds the lease.";
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use crds::metrics::{broken_conventions, documented};

    use super::OPERATOR;

    #[test]
    fn names_keep_to_the_conventions() {
        assert_eq!(broken_conventions(OPERATOR, "cairn_operator_"), Vec::<String>::new());
    }

    #[test]
    fn the_documentation_has_every_name() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
        let text = fs::read_to_string(&file).unwrap();
        let wanted = documented(&text, "operator", OPERATOR).expect("a table `operator`");
        if wanted != text {
            fs::write(&file, wanted).unwrap();
            panic!(
                "the names changed, so docs/metrics.md was written anew; look at the difference and commit it"
            );
        }
    }
}
