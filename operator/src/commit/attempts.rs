//! What is done with a plan each time that it was looked at in the newest world, until it is committed or made again.

/// So often it is worked out before the lock what a program derives of the newest world; where the world changes faster, under
/// it.
const MAX_AHEAD: u32 = 2;
/// So often a plan is mended or judged anew before it is made again.
const MAX_WORK: u32 = 5;

/// What a look at a plan showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recheck {
    /// It stands as it was judged.
    Judged,
    /// So it does, and the policy says another thing than where it was judged.
    PolicyChanged,
    /// It stands, and is another plan than was judged.
    Unjudged,
    /// What collides with what is there now is left out of it.
    Partial,
    /// It collides, and nothing of it is kept.
    Infeasible,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is committed as it is, or known not to hold.
    Commit,
    /// Others that collided come first.
    Wait,
    /// What collided is placed again.
    Repair,
    /// It is judged before it is committed.
    Judge,
    /// It is made again.
    GiveUp,
}

/// What was done with a plan so far.
#[derive(Debug)]
pub struct CommitAttempts {
    /// Whether what is made of the plan is judged before it is committed.
    is_judged: bool,
    /// How often what collides may still be placed again.
    repairs: u32,
    may_follow_policy: bool,
    has_waited: bool,
    /// How often the world was another one than was looked at ahead.
    missed: u32,
    worked: u32,
}

impl CommitAttempts {
    /// Nothing was done yet.
    pub fn new(is_judged: bool) -> Self {
        Self {
            is_judged,
            repairs: MAX_WORK,
            may_follow_policy: true,
            has_waited: false,
            missed: 0,
            worked: 0,
        }
    }

    /// Whether the world changes faster than it can be worked out what a program derives of it.
    pub fn derive_under_lock(&self) -> bool {
        self.missed >= MAX_AHEAD
    }

    /// The world was another one than was looked at ahead.
    pub fn missed(&mut self) {
        self.missed += 1;
    }

    /// What collided can be placed again by a search alone.
    pub fn cannot_repair(&mut self) {
        self.repairs = 0;
    }

    /// What is done with a plan of which a look has shown this.
    ///
    /// One that is as it was judged is committed in the end, whatever else a policy says by then; one that is not is never.
    pub fn next(&mut self, recheck: Recheck) -> Next {
        let may_work = self.worked < MAX_WORK;
        let is_repaired =
            matches!(recheck, Recheck::Partial | Recheck::Infeasible) && self.repairs > 0 && may_work;
        let is_judged_first = self.is_judged
            && match recheck {
                Recheck::Unjudged | Recheck::Partial => true,
                Recheck::PolicyChanged => self.may_follow_policy && may_work,
                Recheck::Judged | Recheck::Infeasible => false,
            };
        if !is_repaired && !is_judged_first {
            return Next::Commit;
        }
        if !may_work {
            return Next::GiveUp;
        }
        let follows_policy = recheck == Recheck::PolicyChanged;
        if self.is_judged && !follows_policy && !self.has_waited {
            self.has_waited = true;
            // Whoever came first has changed the world, and nobody else of those who collide does from now on.
            self.missed = self.missed.min(MAX_AHEAD - 1);
            return Next::Wait;
        }
        self.worked += 1;
        self.may_follow_policy &= !follows_policy;
        if is_repaired { Next::Repair } else { Next::Judge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is done in a row of looks: `m` the world was another one than was looked at ahead, `s` it stands as it was judged, `l` so and
    /// the law is another, `u` it stands and was not judged, `c` it collides, `p` it is kept in part, `n` it collides and cannot be
    /// mended. Answers `f` where it is worked out under the lock what a program derives.
    fn done(checks: &str, is_judged: bool) -> String {
        let mut attempts = CommitAttempts::new(is_judged);
        let mut done = String::new();
        for check in checks.chars() {
            if check == 'm' {
                done.push(if attempts.derive_under_lock() { 'f' } else { '-' });
                attempts.missed();
                continue;
            }
            let next = attempts.next(match check {
                's' => Recheck::Judged,
                'l' => Recheck::PolicyChanged,
                'u' => Recheck::Unjudged,
                'p' => Recheck::Partial,
                _ => Recheck::Infeasible,
            });
            if check == 'n' && next == Next::Repair {
                attempts.cannot_repair();
            }
            done.push(match next {
                Next::Commit => 'C',
                Next::Wait => 'W',
                Next::Repair => 'M',
                Next::Judge => 'J',
                Next::GiveUp => '!',
            });
        }
        done
    }

    #[test]
    fn a_plan_that_was_judged_and_stands_is_committed_and_no_other() {
        for (checks, is_judged, expected) in [
            ("s", true, "C"),
            ("c", false, "M"),
            ("ls", true, "JC"),
            ("ll", true, "JC"),
            ("ccs", true, "WMC"),
            ("ns", true, "WC"),
            ("nns", true, "WMC"),
            ("nnn", true, "WMC"),
            ("nnp", true, "WMJ"),
            // It collides each time: it is made again, and what is left of it is never committed unjudged.
            ("ccccccc", true, "WMMMMMC"),
            ("ccccccp", true, "WMMMMM!"),
            // It stands at last, under another law than where it was judged last.
            ("ccccccl", true, "WMMMMMC"),
            // Who misses twice works it out under the lock, and once more ahead where others came first.
            ("mmmmcmmmcs", true, "--ffW-ffMC"),
        ] {
            assert_eq!(done(checks, is_judged), expected, "{checks}");
        }
    }
}
