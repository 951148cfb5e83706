//! Laws as text, for the command line.
//!
//! | text | law |
//! |---|---|
//! | `mm1(850B/8us@1gbit)` | M/M/1 wait: mean size on the wire, mean gap, rate |
//! | `exp(7us)`, `exp(7us,p=0.34)` | exponential of this mean with probability p (1 without), else zero |
//! | `gamma(2.5,7us)`, `gamma(2.5,7us,p=0.34)` | gamma: shape, mean |
//! | `constant(7us)` | always the same |
//! | `points(0us:0.5,10us:0.5)` | delays with weights |
//! | `samples(FILE)` | recorded delays: [`Law::samples_from_text`] |
//! | `histogram(FILE)` | counts by interval: [`Law::histogram_from_text`] |

use plimsoll_core::{ByteCount, Rate, Span};

use super::{Bin, Law};
use crate::ModelError;

const KINDS: &str = "mm1(850B/8us@1gbit), exp(7us,p=0.34), gamma(2.5,7us,p=0.34), constant(7us), \
     points(0us:0.5,10us:0.5), samples(FILE) or histogram(FILE)";

/// What is wrong inside the parentheses, and what to do.
type Fault = (String, String);

impl Law {
    /// Laws from text, separated by commas; none from an empty text. `read` gives a file's content, or says in one line
    /// why not.
    ///
    /// # Errors
    /// [`ModelError::Text`] with the law's text, what is wrong, and the range or remedy.
    pub fn parse_list(
        text: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Vec<Self>, ModelError> {
        if text.trim().is_empty() {
            return Ok(vec![]);
        }
        split(text).into_iter().map(|law| Self::parse(law, read)).collect()
    }

    fn parse(text: &str, read: &mut dyn FnMut(&str) -> Result<String, String>) -> Result<Self, ModelError> {
        let text = text.trim();
        let parts = text.strip_suffix(')').and_then(|text| text.split_once('('));
        let found = match parts {
            None => Err(("is no law".into(), format!("write {KINDS}"))),
            Some((kind, arguments)) => match kind.trim() {
                "mm1" => mm1(arguments),
                "exp" => exponential(arguments),
                "gamma" => gamma(arguments),
                "constant" => span("delay", arguments).and_then(|delay| Self::constant(delay).map_err(fault)),
                "points" => points(arguments),
                "samples" => file(arguments, read, &mut |text| Self::samples_from_text(text).map_err(fault)),
                "histogram" => {
                    file(arguments, read, &mut |text| Self::histogram_from_text(text).map_err(fault))
                }
                _ => Err(("is of no known kind".into(), format!("write {KINDS}"))),
            },
        };
        found.map_err(|(problem, remedy)| ModelError::text("law", text, problem, remedy))
    }

    /// Recorded delays, one a line, with a unit (`12.5us`) or in nanoseconds without. Or a recording: comma-separated
    /// values whose first line names the columns, one of them `depth_ps` (picoseconds) or `delay_ns`; lines where it is
    /// empty are left out. `#` begins a comment.
    ///
    /// # Errors
    /// [`ModelError`] that names the first line that is no delay; [`ModelError::Range`] without any.
    pub fn samples_from_text(text: &str) -> Result<Self, ModelError> {
        let mut lines = content(text).peekable();
        let header = lines.peek().filter(|(_, line)| line.contains(['_', ',']));
        let Some(&(_, header)) = header else {
            let delay = |(number, line): (usize, &str)| delay_ns(line, number);
            return Self::samples(lines.map(delay).collect::<Result<_, _>>()?);
        };
        let known = [("depth_ps", 1e-3), ("delay_ns", 1.0)];
        let column = |name| header.split(',').position(|column| column.trim() == name);
        let Some((column, unit)) = known.iter().find_map(|&(name, unit)| Some((column(name)?, unit))) else {
            return Err(ModelError::text(
                "first line",
                header,
                "names no column of delays",
                "one column must be depth_ps or delay_ns",
            ));
        };
        lines.next();
        let mut samples = vec![];
        for (number, line) in lines {
            let value = line.split(',').nth(column).unwrap_or("").trim();
            if !value.is_empty() {
                samples.push(value.parse::<f64>().map_err(|_| no_delay(value, number))? * unit);
            }
        }
        Self::samples(samples)
    }

    /// Counts by interval, one a line: lower end, upper end, count, separated by commas; ends as in
    /// [`Law::samples_from_text`]. `#` begins a comment.
    ///
    /// # Errors
    /// As [`Law::samples_from_text`], and on intervals that overlap.
    pub fn histogram_from_text(text: &str) -> Result<Self, ModelError> {
        let bin = |(number, line): (usize, &str)| {
            let parts: Vec<_> = line.split(',').map(str::trim).collect();
            let &[from, to, count] = &parts[..] else {
                let problem = format!("in line {number} is no interval with its count");
                return Err(ModelError::text(
                    "histogram",
                    line,
                    problem,
                    "write FROM,TO,COUNT, as 0us,10us,250",
                ));
            };
            let count = count.parse().map_err(|_| {
                ModelError::text(
                    "histogram",
                    count,
                    format!("in line {number} is no count"),
                    "write a whole number",
                )
            })?;
            Ok(Bin { from_ns: delay_ns(from, number)?, to_ns: delay_ns(to, number)?, count })
        };
        Self::histogram(&content(text).map(bin).collect::<Result<Vec<_>, _>>()?)
    }
}

/// Lines with their numbers, without comments and empty ones.
fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    (1..).zip(lines).filter(|(_, line)| !line.is_empty())
}

fn no_delay(text: &str, line: usize) -> ModelError {
    let remedy = "write a number with a unit, as 12.5us, or of nanoseconds";
    ModelError::text("sample", text, format!("in line {line} is no delay"), remedy)
}

fn delay_ns(text: &str, line: usize) -> Result<f64, ModelError> {
    match text.parse::<f64>() {
        Ok(ns) => Ok(ns),
        Err(_) => text.parse::<Span>().map(ns).map_err(|_| no_delay(text, line)),
    }
}

fn ns(span: Span) -> f64 {
    span.ps as f64 / 1e3
}

/// At commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .collect()
}

fn fault(error: ModelError) -> Fault {
    match error {
        ModelError::Range { argument, value, range } => {
            (format!("has {argument} {value}"), format!("it must be {range}"))
        }
        ModelError::Text { text, problem, remedy, .. } => (format!("has {text:?}, which {problem}"), remedy),
    }
}

/// A delay above 0 or 0, in ns.
fn span(argument: &str, text: &str) -> Result<f64, Fault> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err((format!("has {argument} {text}"), "it must not be negative".into()));
    }
    text.parse::<Span>()
        .map(ns)
        .map_err(|e| (format!("has {argument} {text:?}, which {}", e.problem), e.remedy))
}

fn number(argument: &str, text: &str) -> Result<f64, Fault> {
    let text = text.trim();
    text.parse().map_err(|_| (format!("has {argument} {text:?}"), "it must be a number".into()))
}

/// Plain arguments, and the probability of a wait.
fn with_p(arguments: &str) -> Result<(Vec<&str>, f64), Fault> {
    let mut plain: Vec<_> = arguments.split(',').map(str::trim).collect();
    let p = match plain.iter().position(|part| part.starts_with("p=")) {
        Some(at) => number("p", &plain.remove(at)[2..])?,
        None => 1.0,
    };
    Ok((plain, p))
}

fn exponential(arguments: &str) -> Result<Law, Fault> {
    match with_p(arguments)? {
        (plain, p) if plain.len() == 1 => {
            span("mean", plain[0]).and_then(|mean| Law::exponential(mean, p).map_err(fault))
        }
        _ => Err(("does not have one mean".into(), "write exp(7us) or exp(7us,p=0.34)".into())),
    }
}

fn gamma(arguments: &str) -> Result<Law, Fault> {
    match with_p(arguments)? {
        (plain, p) if plain.len() == 2 => {
            let (shape, mean) = (number("shape", plain[0])?, span("mean", plain[1])?);
            Law::gamma(shape, mean, p).map_err(fault)
        }
        _ => Err((
            "does not have a shape and a mean".into(),
            "write gamma(2.5,7us) or gamma(2.5,7us,p=0.34)".into(),
        )),
    }
}

fn mm1(arguments: &str) -> Result<Law, Fault> {
    let parts = arguments.split_once('/').and_then(|(size, rest)| Some((size, rest.split_once('@')?)));
    let Some((size, (gap, rate))) = parts else {
        return Err(("is not SIZE/GAP@RATE".into(), "write mm1(850B/8us@1gbit)".into()));
    };
    let unit = |argument, text: &str, e: plimsoll_core::UnitError| {
        (format!("has {argument} {text:?}, which {}", e.problem), e.remedy)
    };
    let (size, rate) = (size.trim(), rate.trim());
    let octets: ByteCount = size.parse().map_err(|e| unit("size", size, e))?;
    let gap_ns = span("gap", gap)?;
    let rate: Rate = rate.parse().map_err(|e| unit("rate", rate, e))?;
    Law::mm1(octets.0 as f64, gap_ns, rate).map_err(fault)
}

fn points(arguments: &str) -> Result<Law, Fault> {
    let point = |text: &str| {
        let Some((delay, weight)) = text.split_once(':') else {
            return Err((
                format!("has {:?}, which is no DELAY:WEIGHT", text.trim()),
                "write points(0us:0.5,10us:0.5)".into(),
            ));
        };
        Ok((span("delay", delay)?, number("weight", weight)?))
    };
    let points: Vec<_> = arguments.split(',').map(point).collect::<Result<_, _>>()?;
    Law::points(&points).map_err(fault)
}

fn file(
    name: &str,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
    law: &mut dyn FnMut(&str) -> Result<Law, Fault>,
) -> Result<Law, Fault> {
    let name = name.trim();
    let content = read(name)
        .map_err(|why| (format!("cannot be read: {why}"), "name a file that you may read".into()))?;
    law(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<Law>, ModelError> {
        Law::parse_list(text, &mut |name| match name {
            "waits" => Ok("# of a port\n0\n12us\n 250.5 # ns\n\n".into()),
            "record.csv" => Ok("switch,depth_bytes,depth_ps,r\ns1,10,1500,0\ns1,,,\ns1,0,0,0\n".into()),
            "bins" => Ok("0,0,3\n0,10us,1\n".into()),
            "empty" => Ok("\n# nothing\n".into()),
            _ => Err("no such file".into()),
        })
    }

    #[test]
    fn each_kind_is_read() {
        let found = list(
            "mm1(850B/8us@1gbit), exp(7us),exp(7us,p=0.34),gamma(2.5,7us,p=0.5),constant(3us),\
             points(0us:0.5,10us:0.5),samples(waits),samples(record.csv),histogram(bins)",
        );
        let expected = [
            Law::mm1(850.0, 8e3, Rate(1_000_000_000)),
            Law::exponential(7e3, 1.0),
            Law::exponential(7e3, 0.34),
            Law::gamma(2.5, 7e3, 0.5),
            Law::constant(3e3),
            Law::points(&[(0.0, 0.5), (10e3, 0.5)]),
            Law::samples(vec![0.0, 250.5, 12e3]),
            Law::samples(vec![0.0, 1.5]),
            Law::histogram(&[
                Bin { from_ns: 0.0, to_ns: 0.0, count: 3 },
                Bin { from_ns: 0.0, to_ns: 10e3, count: 1 },
            ]),
        ];
        assert_eq!(found.unwrap(), expected.map(Result::unwrap));
        assert_eq!(list(" ").unwrap(), []);
    }

    #[test]
    fn mistakes_name_law_argument_and_range() {
        for (text, words) in [
            ("exp(-7us)", "law \"exp(-7us)\" has mean -7us; it must not be negative"),
            ("exp(0us)", "law \"exp(0us)\" has mean 0; it must be a finite number above 0"),
            ("exp(7)", "law \"exp(7)\" has mean \"7\", which has no unit; write for example \"7us\""),
            ("exp(7us,p=1.5)", "law \"exp(7us,p=1.5)\" has p 1.5; it must be above 0 and at most 1"),
            ("exp(7us,p=x)", "law \"exp(7us,p=x)\" has p \"x\"; it must be a number"),
            ("exp()", "has mean \"\", which is empty"),
            ("mm1(1250B/8us@1gbit)", "has rho = 8*size/(rate*gap) 1.25; it must be below 1"),
            ("mm1(850B/0us@1gbit)", "has gap 0; it must be a finite number above 0"),
            ("mm1(850B@1gbit)", "is not SIZE/GAP@RATE; write mm1("),
            ("mm1(850B/8us@1gbps)", "has rate \"1gbps\", which has an unknown unit; bps is"),
            ("gamma(0,7us)", "has shape 0; it must be within 0.01..=10000"),
            ("points(1us)", "has \"1us\", which is no DELAY:WEIGHT"),
            ("points(1us:0)", "has weight of a point 0; it must be"),
            ("constant(-1us)", "has delay -1us"),
            ("samples(nowhere)", "law \"samples(nowhere)\" cannot be read: no such file; name a file"),
            ("samples(empty)", "law \"samples(empty)\" has samples empty; it must be at least one"),
            (
                "histogram(waits)",
                "has \"0\", which in line 2 is no interval with its count; write FROM,TO,COUNT",
            ),
            ("normal(7us)", "is of no known kind; write mm1("),
            ("exp(7us),", "law \"\" is no law; write"),
            ("exp(7us", "law \"exp(7us\" is no law"),
        ] {
            let error = list(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn lines_that_are_no_delays_are_named() {
        let said = |text: &str| Law::samples_from_text(text).unwrap_err().to_string();
        assert!(said("1\n2\nx\n").contains("\"x\" in line 3 is no delay"));
        assert!(said("1\n-2\n").starts_with("sample is -2"));
        assert!(said("a,b\n1,2\n").contains("one column must be depth_ps or delay_ns"));
        assert!(said("delay_ns,b\n1,2\nq,3").contains("\"q\" in line 3 is no delay"));
    }
}
