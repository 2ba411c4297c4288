//! The node agent's metrics.

use std::collections::BTreeMap;

/// The series of a scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrapedSeries(Vec<Series>);

/// One series.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl ScrapedSeries {
    /// Parses Prometheus' text format; other lines are ignored.
    pub fn read(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(series).collect())
    }

    /// The GPUs: their ids and constant labels.
    pub fn gpus(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        let is_gpu = |series: &&Series| {
            series.name == "cairn_device_info" && series.has("kind", "gpu") && series.has("vendor", "nvidia")
        };
        self.0
            .iter()
            .filter(is_gpu)
            .filter_map(|series| Some((series.labels.get("device")?.as_str(), &series.labels)))
    }

    /// The value of a device's series, with this label if given.
    pub fn of(&self, device: &str, name: &str, label: Option<(&str, &str)>) -> Option<f64> {
        let is_it = |series: &&Series| {
            let is_labelled = label.is_none_or(|(key, value)| series.has(key, value));
            series.name == name && series.has("device", device) && is_labelled
        };
        self.0.iter().find(is_it).map(|series| series.value)
    }
}

impl Series {
    /// Whether it has this label with this value.
    fn has(&self, label: &str, value: &str) -> bool {
        self.labels.get(label).is_some_and(|its| its == value)
    }
}

fn series(line: &str) -> Option<Series> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    while let Some((key, after)) = rest.strip_prefix(['{', ',']).and_then(|rest| rest.split_once("=\"")) {
        let end = end_of_text(after)?;
        let text = after[..end].replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\");
        labels.insert(key.to_owned(), text);
        rest = &after[end + 1..];
    }
    let value = rest.strip_prefix('}').unwrap_or(rest).trim().parse().ok()?;
    Some(Series { name: name.to_owned(), labels, value })
}

/// The position of the quotation mark that ends a text.
fn end_of_text(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapes_are_parsed() {
        let said = ScrapedSeries::read(
            "# TYPE cairn_device_info gauge\n\
             cairn_device_info{device=\"gpu-0\",kind=\"gpu\",model=\"a \\\"b\\\", {c}\",vendor=\"nvidia\"} 1\n\
             cairn_device_info{device=\"gpu-1\",kind=\"gpu\",vendor=\"amd\"} 1\n\
             cairn_device_clock_hertz{device=\"gpu-0\",domain=\"memory\"} 2.6e+09\n\
             cairn_device_clock_hertz{device=\"gpu-0\",domain=\"compute\"} 1980000000\n\
             cairn_agent_perf_open_fds 0\n\
             nonsense{\n",
        );
        let gpus: Vec<_> = said.gpus().map(|(id, labels)| (id, labels["model"].as_str())).collect();
        assert_eq!(gpus, [("gpu-0", "a \"b\", {c}")]);
        let clock = |domain| said.of("gpu-0", "cairn_device_clock_hertz", Some(("domain", domain)));
        assert_eq!([clock("compute"), clock("memory"), clock("other")], [Some(1.98e9), Some(2.6e9), None]);
        assert_eq!(said.of("gpu-1", "cairn_device_clock_hertz", None), None);
    }
}
