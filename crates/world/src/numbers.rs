//! Parsers for numbers in manifests; results are exact rationals.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use num_rational::Ratio;

/// An exact rational.
pub type Exact = Ratio<i128>;

/// A text that is not a number of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {expected}")]
pub struct NumberError {
    /// The text.
    pub text: String,
    /// The expected kind, with examples.
    pub expected: &'static str,
}

/// Maximum number of digits, and of fractional digits: products of a few such numbers fit 128 bits.
const MAX_DIGITS: usize = 18;
/// Maximum quantity as a power of two. The API server stores up to 2^63; sums over the containers of a pod may be
/// somewhat larger, and sums over all pods still fit 128 bits.
const MAX_QUANTITY_POWER: u32 = 70;
/// Resolution of a quantity; the API server also rounds up to it.
const PARTS: i128 = 1_000_000_000;

/// Parses a rational: `1`, `0.5`, `3/2`.
///
/// # Errors
/// Not a number of at most 18 digits, or a zero denominator.
pub fn rational(text: &str) -> Result<Exact, NumberError> {
    let error = || NumberError { text: text.to_owned(), expected: "number, as in 1, 0.5 or 3/2" };
    let Some((above, below)) = text.split_once('/') else { return decimal(text).ok_or_else(error) };
    let (above, below) = (decimal(above).ok_or_else(error)?, decimal(below).ok_or_else(error)?);
    if below == Exact::from(0) {
        return Err(error());
    }
    Ok(above / below)
}

/// Parses messages per second: `30/s`, `0.5/m`, `100/h`.
///
/// # Errors
/// Not a number followed by `/s`, `/m` or `/h`.
pub fn rate(text: &str) -> Result<Exact, NumberError> {
    let error = || NumberError { text: text.to_owned(), expected: "rate, as in 30/s, 0.5/m or 100/h" };
    let (count, unit) = text.split_once('/').ok_or_else(error)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(error()),
    };
    Ok(decimal(count).ok_or_else(error)? / Exact::from(seconds))
}

/// Parses a duration into microseconds: `20ms`, `1.5s`, `35us`, `2m`, `1h`.
///
/// # Errors
/// Not a number followed by `us`, `ms`, `s`, `m` or `h`.
pub fn duration(text: &str) -> Result<Exact, NumberError> {
    let error = || NumberError { text: text.to_owned(), expected: "duration, as in 20ms or 1.5s" };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(error)?;
    let microseconds = match &text[split..] {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000_i128,
        _ => return Err(error()),
    };
    Ok(decimal(&text[..split]).ok_or_else(error)? * Exact::from(microseconds))
}

/// Parses a Kubernetes quantity: `500m`, `64Mi`, `2`, `1e3`; rounds up to a billionth, as the API server does.
///
/// # Errors
/// Not a quantity, or above 2^70; the API server's limit is 2^63.
pub fn quantity(text: &str) -> Result<Exact, NumberError> {
    let error = || NumberError { text: text.to_owned(), expected: "quantity, as in 500m, 2 or 64Mi" };
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let split = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
    // Sums are written as integers or in billionths.
    let most = match &unsigned[split..] {
        "" => 22,
        "n" | "u" | "m" => 31,
        _ => MAX_DIGITS,
    };
    let number = quantity_number(&unsigned[..split], most).ok_or_else(error)?;
    let ten = |power: u32| Exact::from(10_i128.pow(power));
    let two = |power: u32| Exact::from(1_i128 << power);
    let scale = match &unsigned[split..] {
        "" => Exact::from(1),
        "n" => ten(9).recip(),
        "u" => ten(6).recip(),
        "m" => ten(3).recip(),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        exponent => {
            let power = exponent.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
            match power {
                Some(power @ 0..=18) => ten(power.unsigned_abs()),
                Some(power @ -18..0) => ten(power.unsigned_abs()).recip(),
                _ => return Err(error()),
            }
        }
    };
    let exact = number * scale;
    if exact > two(MAX_QUANTITY_POWER) {
        let expected = "quantity that Kubernetes supports: the maximum is 2^63";
        return Err(NumberError { text: text.to_owned(), expected });
    }
    let parts = Exact::from(PARTS);
    Ok((exact * parts).ceil() / parts)
}

/// Suffixes of a quantity, the largest first, by how many make one.
const SUFFIXES: [(&str, i128); 4] = [("", 1), ("m", 1_000), ("u", 1_000_000), ("n", PARTS)];

/// A quantity in the largest exact suffix, rounded up to a billionth.
pub fn to_quantity(exact: Exact) -> Quantity {
    let in_units = |of_one: i128| exact * Exact::from(of_one);
    let (unit, of_one) =
        *SUFFIXES.iter().find(|(_, of_one)| in_units(*of_one).is_integer()).unwrap_or(&SUFFIXES[3]);
    Quantity(format!("{}{unit}", in_units(of_one).ceil()))
}

/// At most 18 digits with an optional fraction.
fn decimal(text: &str) -> Option<Exact> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_too_long = whole.len() + fraction.len() > MAX_DIGITS;
    if whole.is_empty() || is_too_long || text.ends_with('.') {
        return None;
    }
    quantity_number(text, MAX_DIGITS)
}

/// The number of a quantity, without whole digits (`.5`) or a fraction (`1.`) if need be.
///
/// At most `most` digits are exact, 18 of them in the fraction: fractions with more are rounded up.
fn quantity_number(text: &str, most: usize) -> Option<Exact> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let exact = fraction.len().min(MAX_DIGITS).min(most.checked_sub(whole.len())?);
    let (fraction, rest) = fraction.split_at(exact);
    let number: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let is_above = rest.bytes().any(|digit| digit != b'0');
    let scale = 10_i128.checked_pow(u32::try_from(exact).ok()?)?;
    Some(Exact::new(number + i128::from(is_above), scale))
}

/// The product; `None` if it does not fit 128 bits.
pub(crate) fn product(factors: impl IntoIterator<Item = Exact>) -> Option<Exact> {
    factors.into_iter().try_fold(Exact::from(1), |product, factor| {
        // Cancel common factors first.
        let left = Exact::new(*product.numer(), *factor.denom());
        let right = Exact::new(*factor.numer(), *product.denom());
        let above = left.numer().checked_mul(*right.numer())?;
        Some(Exact::new(above, left.denom().checked_mul(*right.denom())?))
    })
}

/// The sum; `None` if it does not fit 128 bits.
pub(crate) fn sum(terms: impl IntoIterator<Item = Exact>) -> Option<Exact> {
    terms.into_iter().try_fold(Exact::from(0), |sum, term| {
        // Over the least common denominator.
        let ratio = Exact::new(*sum.denom(), *term.denom());
        let left = sum.numer().checked_mul(*ratio.denom())?;
        let right = term.numer().checked_mul(*ratio.numer())?;
        Some(Exact::new(left.checked_add(right)?, sum.denom().checked_mul(*ratio.denom())?))
    })
}

/// The next integer. `Ratio::ceil` adds numerator and denominator, which may not fit.
pub(crate) fn round_up(exact: Exact) -> i128 {
    let below = exact.numer().div_euclid(*exact.denom());
    if exact.is_integer() { below } else { below + 1 }
}

/// Rounds up; at most 2^53 + 1, which a snapshot rejects.
pub(crate) fn ceil(exact: Exact) -> u64 {
    clamp(round_up(exact))
}

/// Rounds down; at most 2^53 + 1.
pub fn floor(exact: Exact) -> u64 {
    clamp(exact.numer().div_euclid(*exact.denom()))
}

fn clamp(whole: i128) -> u64 {
    let most = i128::from(placement::LARGEST) + 1;
    u64::try_from(whole.clamp(0, most)).expect("clamped to what fits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parsed: Result<Exact, NumberError>) -> String {
        parsed.map_or_else(|e| e.to_string(), |exact| exact.to_string())
    }

    #[test]
    fn numbers_are_exact() {
        let table = [
            (shown(rational("3/2")), "3/2"),
            (shown(rational("0.5")), "1/2"),
            (shown(rational("1/0")), "`1/0` is not a number, as in 1, 0.5 or 3/2"),
            (shown(rational("1.")), "`1.` is not a number, as in 1, 0.5 or 3/2"),
            (shown(rate("30/s")), "30"),
            (shown(rate("1/h")), "1/3600"),
            (shown(rate("30")), "`30` is not a rate, as in 30/s, 0.5/m or 100/h"),
            (shown(rate("-1/s")), "`-1/s` is not a rate, as in 30/s, 0.5/m or 100/h"),
            (shown(duration("1.5s")), "1500000"),
            (shown(duration("35us")), "35"),
            (shown(duration("5")), "`5` is not a duration, as in 20ms or 1.5s"),
            (shown(quantity("500m")), "1/2"),
            (shown(quantity("64Mi")), "67108864"),
            (shown(quantity("1e3")), "1000"),
            (shown(quantity("1E")), "1000000000000000000"),
            (shown(quantity("12x")), "`12x` is not a quantity, as in 500m, 2 or 64Mi"),
            (shown(quantity("")), "`` is not a quantity, as in 500m, 2 or 64Mi"),
            // the resolution is a billionth
            (shown(quantity("0.1n")), "1/1000000000"),
            (shown(quantity("2.000000000000000001")), "2000000001/1000000000"),
            (shown(quantity("1e-18")), "1/1000000000"),
            (shown(quantity("0.0000000000000000001")), "1/1000000000"),
            (shown(quantity("0.33333333333333333333")), "166666667/500000000"),
            (shown(quantity("999999999999999999.5Ki")), "1024000000000000000000"),
            (
                shown(quantity("1999999999999999999.5Ki")),
                "`1999999999999999999.5Ki` is not a quantity, as in 500m, 2 or 64Mi",
            ),
            // the API server needs no digits on both sides of the point, and accepts a sign
            (shown(quantity(".5")), "1/2"),
            (shown(quantity("1.")), "1"),
            (shown(quantity("+1.Gi")), "1073741824"),
            (shown(quantity("0000000000000000000000000000001.50")), "3/2"),
            (shown(quantity(".")), "`.` is not a quantity, as in 500m, 2 or 64Mi"),
            (shown(quantity("+")), "`+` is not a quantity, as in 500m, 2 or 64Mi"),
            (shown(quantity("-1")), "`-1` is not a quantity, as in 500m, 2 or 64Mi"),
            (shown(quantity("1.2.3")), "`1.2.3` is not a quantity, as in 500m, 2 or 64Mi"),
            // a hundred times the API server's maximum, as an integer and in billionths
            (shown(quantity("922337203685477580700")), "922337203685477580700"),
            (shown(quantity("922337203685477580700000000001n")), "922337203685477580700000000001/1000000000"),
            (shown(quantity("1024Ei")), "1180591620717411303424"),
            (
                shown(quantity("1025Ei")),
                "`1025Ei` is not a quantity that Kubernetes supports: the maximum is 2^63",
            ),
            (
                shown(quantity("999999999999999999E")),
                "`999999999999999999E` is not a quantity that Kubernetes supports: the maximum is 2^63",
            ),
            (
                shown(quantity("9999999999999999999999999999999n")),
                "`9999999999999999999999999999999n` is not a quantity that Kubernetes supports: the maximum is 2^63",
            ),
        ];
        for (parsed, expected) in table {
            assert_eq!(parsed, expected);
        }
    }

    #[test]
    fn overflowing_products_are_none() {
        let power = |of_two: u32| Exact::from(1_i128 << of_two);
        for (factors, expected) in [
            (vec![], Some(Exact::from(1))),
            (vec![Exact::new(3, 4), Exact::new(2, 9)], Some(Exact::new(1, 6))),
            (vec![Exact::from(0), Exact::new(2, 9)], Some(Exact::from(0))),
            (vec![power(100), power(26)], Some(power(126))),
            (vec![power(100), power(100).recip(), power(100)], Some(power(100))),
            (vec![power(100), power(27)], None),
            (vec![power(100).recip(), power(27).recip()], None),
        ] {
            assert_eq!(product(factors.clone()), expected, "{factors:?}");
        }
    }

    #[test]
    fn overflowing_sums_are_none() {
        let large = Exact::from(i128::MAX);
        for (terms, expected) in [
            (vec![], Some(Exact::from(0))),
            (vec![Exact::new(1, 6), Exact::new(1, 10), Exact::new(-1, 15)], Some(Exact::new(1, 5))),
            (vec![large, Exact::from(-1)], Some(large - Exact::from(1))),
            (vec![large, Exact::from(1)], None),
            (vec![Exact::from(1 << 70), Exact::new(1, 1 << 70)], None),
            (vec![Exact::new(1, i128::MAX), Exact::new(1, 2)], None),
        ] {
            assert_eq!(sum(terms.clone()), expected, "{terms:?}");
        }
    }

    #[test]
    fn requests_round_up_and_capacity_rounds_down() {
        assert_eq!((ceil(Exact::new(7, 2)), floor(Exact::new(7, 2))), (4, 3));
        assert_eq!(
            (ceil(Exact::from(-7)), round_up(Exact::new(-7, 2)), floor(Exact::new(-7, 2))),
            (0, -3, 0)
        );
        assert_eq!(ceil(Exact::new(i128::MAX, 2)), placement::LARGEST + 1);
        assert_eq!(ceil(Exact::from(i128::from(u64::MAX))), placement::LARGEST + 1);
    }
}
