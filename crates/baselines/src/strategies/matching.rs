//! Minimum-cost assignment of rows to columns.

/// The column of each row of a square matrix that minimizes the sum of costs.
///
/// The Hungarian method with potentials, in O(n³) (Kuhn, 1955; Jonker and Volgenant, 1987).
pub fn cheapest(costs: &[Vec<i64>]) -> Vec<usize> {
    let size = costs.len();
    // Rows and columns are 1-based; 0 is the root of the augmenting path.
    let (mut of_row, mut of_column) = (vec![0i64; size + 1], vec![0i64; size + 1]);
    let mut row_at = vec![0usize; size + 1];
    let mut came_from = vec![0usize; size + 1];
    for row in 1..=size {
        row_at[0] = row;
        let mut column = 0;
        let mut slack = vec![i64::MAX; size + 1];
        let mut done = vec![false; size + 1];
        while row_at[column] != 0 {
            done[column] = true;
            let at = row_at[column];
            let (mut delta, mut next) = (i64::MAX, 0);
            for other in (1..=size).filter(|&other| !done[other]).collect::<Vec<_>>() {
                let reduced = costs[at - 1][other - 1] - of_row[at] - of_column[other];
                if reduced < slack[other] {
                    (slack[other], came_from[other]) = (reduced, column);
                }
                if slack[other] < delta {
                    (delta, next) = (slack[other], other);
                }
            }
            for other in 0..=size {
                if done[other] {
                    of_row[row_at[other]] += delta;
                    of_column[other] -= delta;
                } else {
                    slack[other] = slack[other].saturating_sub(delta);
                }
            }
            column = next;
        }
        while column != 0 {
            row_at[column] = row_at[came_from[column]];
            column = came_from[column];
        }
    }
    let mut columns = vec![0; size];
    for column in 1..=size {
        columns[row_at[column] - 1] = column - 1;
    }
    columns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::cheapest;

    /// Brute force over all permutations.
    fn least(costs: &[Vec<i64>], row: usize, taken: &mut Vec<bool>) -> i64 {
        if row == costs.len() {
            return 0;
        }
        let mut best = i64::MAX;
        for column in 0..costs.len() {
            if !taken[column] {
                taken[column] = true;
                best = best.min(costs[row][column] + least(costs, row + 1, taken));
                taken[column] = false;
            }
        }
        best
    }

    fn matrix() -> impl proptest::strategy::Strategy<Value = Vec<Vec<i64>>> {
        (0usize..7).prop_flat_map(|size| {
            proptest::collection::vec(proptest::collection::vec(-20i64..100, size), size)
        })
    }

    proptest! {
        #[test]
        fn the_assignment_is_optimal_over_all_permutations(costs in matrix()) {
            let columns = cheapest(&costs);
            let mut seen = columns.clone();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..costs.len()), "a permutation: {columns:?}");
            let sum: i64 = columns.iter().enumerate().map(|(row, &column)| costs[row][column]).sum();
            prop_assert_eq!(sum, least(&costs, 0, &mut vec![false; costs.len()]));
        }
    }
}
