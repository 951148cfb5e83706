//! Each clock's exchanges as files: a line each, and a plot of its error over time.

use super::{ClockOutcome, Outcome};
use crate::clock::{ClockSample, Filtered};
use crate::record::RecordError;
use plotters::prelude::*;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Dots of a plot at most, of each kind: more say no more, and make a file that no browser likes.
const DOTS: usize = 4000;
const SIZE: (u32, u32) = (960, 540);
const RAW: RGBColor = RGBColor(31, 119, 180);
const FILTERED: RGBColor = RGBColor(214, 39, 40);
const COMPENSATED: RGBColor = RGBColor(44, 160, 44);
const SAID: RGBColor = RGBColor(90, 90, 90);

/// An offset over time: seconds, microseconds.
type Dots = Vec<(f64, f64)>;

impl Outcome {
    /// Writes into `directory`, which is made where it is not there, for each clock NAME.csv (its exchanges), NAME.svg (its
    /// offsets over time) and, of a daemon that says where its clock is, NAME-said.csv.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_exchanges(&self, directory: &Path) -> Result<(), RecordError> {
        fs::create_dir_all(directory).map_err(fail(directory, "mkdir"))?;
        let names: Vec<&str> = self.clocks.iter().map(|clock| clock.report.name.as_str()).collect();
        for (clock, name) in self.clocks.iter().zip(stems(&names)) {
            let file = directory.join(format!("{name}.csv"));
            write_csv(&file, clock).map_err(fail(&file, "write"))?;
            if clock.logged.is_some() {
                let file = directory.join(format!("{name}-said.csv"));
                write_said(&file, clock).map_err(fail(&file, "write"))?;
            }
            let file = directory.join(format!("{name}.svg"));
            draw(&format!("{}: {}", self.lab, clock.report.name), clock)
                .map_err(io::Error::other)
                .and_then(|drawing| fs::write(&file, drawing))
                .map_err(fail(&file, "write"))?;
        }
        Ok(())
    }
}

/// Makes the folder for [`Outcome::write_exchanges`] where it is not there, and tries a file in it.
///
/// # Errors
/// It cannot be made, or takes no file.
pub fn prepare_exchanges(directory: &Path) -> Result<(), RecordError> {
    fs::create_dir_all(directory).map_err(fail(directory, "mkdir"))?;
    let file = directory.join(format!(".plimsoll-{}", std::process::id()));
    let tried = fs::write(&file, b"x");
    let _ = fs::remove_file(&file);
    tried.map_err(fail(directory, "write"))
}

fn fail(path: &Path, call: &'static str) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.display().to_string();
    move |source| {
        let remedy = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some disk, or name a folder on another one"
            }
            _ => "name a folder that you may write",
        };
        RecordError { path, call, source, remedy }
    }
}

/// What the files of each clock are called. Names of clocks are free, those of files are not: what would be one file of
/// two clocks, `-said` included, gets a number.
fn stems(clocks: &[&str]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let stem = |name: &&str| {
        let name: String = name.chars().map(|c| if c == '/' || c == '\0' { '_' } else { c }).collect();
        let mut stem = name.clone();
        let mut number = 2;
        while taken.contains(&stem) || taken.contains(&format!("{stem}-said")) {
            stem = format!("{name}-{number}");
            number += 1;
        }
        taken.extend([stem.clone(), format!("{stem}-said")]);
        stem
    };
    clocks.iter().map(stem).collect()
}

fn write_csv(path: &Path, clock: &ClockOutcome) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(
        file,
        "seq,sync_seq,t1_ns,t2_ns,t3_ns,t4_ns,correction_sync_ns,correction_delay_ns,n_sync,n_delay,n_response,saturated,\
         raw_ns,compensated_ns,raw_delay_ns,compensated_delay_ns"
    )?;
    for s in &clock.samples {
        writeln!(
            file,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            s.seq,
            s.sync_seq,
            s.t1,
            s.t2,
            s.t3,
            s.t4,
            s.correction_sync_ns,
            s.correction_delay_ns,
            s.n_sync,
            s.n_delay,
            s.n_response,
            u8::from(s.saturated),
            s.raw_ns,
            s.compensated_ns,
            s.raw_delay_ns,
            s.compensated_delay_ns
        )?;
    }
    file.flush()
}

fn write_said(path: &Path, clock: &ClockOutcome) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "at_ns,offset_ns,delay_ns")?;
    for line in clock.logged.iter().flat_map(|logged| &logged.said) {
        let delay = line.delay_ns.map_or_else(String::new, |delay| delay.to_string());
        writeln!(file, "{},{},{delay}", line.at, line.offset_ns)?;
    }
    file.flush()
}

/// What is drawn of a clock: a name, a colour, its dots.
fn kinds(clock: &ClockOutcome) -> Vec<(&'static str, RGBColor, Dots)> {
    // Of peer delay the Sync is what the offset is of, else the request.
    let at = |sample: &ClockSample| sample.t2;
    let Some(start) = clock.samples.iter().map(at).min() else { return Vec::new() };
    let seconds = |ns: u64| ns.wrapping_sub(start).cast_signed() as f64 / 1e9;
    let every = clock.samples.len().div_ceil(DOTS).max(1);
    let dots = |of: fn(&ClockSample) -> f64| -> Dots {
        clock.samples.iter().step_by(every).map(|sample| (seconds(at(sample)), of(sample) / 1e3)).collect()
    };
    let mut kinds = vec![("raw", RAW, dots(|sample| sample.raw_ns))];
    if let Some(filtered) = &clock.report.filtered {
        let offsets =
            Filtered::offsets(filtered.choice, &clock.samples, |sample| (sample.raw_ns, sample.raw_delay_ns));
        let dots = clock.samples.iter().zip(offsets).step_by(every);
        kinds.push((
            "raw, filtered",
            FILTERED,
            dots.map(|(sample, ns)| (seconds(at(sample)), ns / 1e3)).collect(),
        ));
    }
    if clock.samples.iter().any(|sample| sample.compensated_ns != sample.raw_ns) {
        kinds.push(("compensated", COMPENSATED, dots(|sample| sample.compensated_ns)));
    }
    if let Some(logged) = &clock.logged {
        let dots = logged.said.iter().map(|line| (seconds(line.at), line.offset_ns / 1e3));
        kinds.push(("by the daemon itself", SAID, dots.collect()));
    }
    kinds
}

/// As SVG.
fn draw(title: &str, clock: &ClockOutcome) -> Result<String, String> {
    let mut drawing = String::new();
    let kinds = kinds(clock);
    let span = |values: &dyn Fn(&(f64, f64)) -> f64| {
        let all = || kinds.iter().flat_map(|(.., dots)| dots).map(values);
        let (low, high) = (all().fold(0.0, f64::min), all().fold(1e-3, f64::max));
        low * 1.05..high * 1.05
    };
    let draw = |drawing: &mut String| -> Result<(), String> {
        // Plotters' errors hold references to the drawing.
        let area = SVGBackend::with_string(drawing, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(text)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(72)
            .build_cartesian_2d(span(&|dot| dot.0), span(&|dot| dot.1))
            .map_err(text)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .label_style(("sans-serif", 14))
            .x_desc("time, s")
            .y_desc("offset from the server (the truth is 0), us")
            .draw()
            .map_err(text)?;
        for (name, colour, dots) in &kinds {
            let colour = *colour;
            chart
                .draw_series(dots.iter().map(|dot| Circle::new(*dot, 1, colour.filled())))
                .map_err(text)?
                .label(*name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        if !kinds.is_empty() {
            let mut legend = chart.configure_series_labels();
            legend.label_font(("sans-serif", 14)).background_style(WHITE.mix(0.8)).draw().map_err(text)?;
        }
        area.present().map_err(text)?;
        Ok(())
    };
    draw(&mut drawing)?;
    Ok(drawing)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::{fail, prepare_exchanges, stems};
    use crate::sim::{SimOptions, run};
    use crate::topology::{Overrides, Topology};
    use std::fs;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn a_clock_s_exchanges_stand_in_its_files() {
        let overrides = Overrides { duration: Some(Duration::from_secs(12)), ..Overrides::default() };
        let topology = Topology::load("motivating", &overrides).unwrap();
        let outcome = run(&topology, SimOptions::default(), &crate::lab::Silent, &AtomicBool::new(false))
            .unwrap()
            .outcome;
        let directory = std::env::temp_dir().join(format!("plimsoll-exchanges-{}", std::process::id()));
        outcome.write_exchanges(&directory).unwrap();
        let csv = fs::read_to_string(directory.join("ptp.csv")).unwrap();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len() - 1, outcome.clocks[0].report.samples);
        assert!(lines.iter().all(|line| line.len() == 16), "{:?}", lines[1]);
        let of = |name: &str| lines[0].iter().position(|head| *head == name).unwrap();
        let rms = |name: &str| {
            let squares = lines[1..].iter().map(|line| line[of(name)].parse::<f64>().unwrap().powi(2));
            (squares.sum::<f64>() / (lines.len() - 1) as f64).sqrt()
        };
        assert!((rms("raw_ns") - outcome.clocks[0].report.raw_rms_ns).abs() < 1.0);
        assert!((rms("compensated_ns") - outcome.clocks[0].report.compensated_rms_ns).abs() < 1.0);
        let svg = fs::read_to_string(directory.join("ptp.svg")).unwrap();
        for part in ["motivating: ptp", "raw, filtered", "compensated", "#1F77B4", "#D62728", "#2CA02C"] {
            assert!(svg.contains(part), "{part}");
        }
        fs::remove_dir_all(&directory).unwrap();
        let message = outcome.write_exchanges(std::path::Path::new("/proc/none")).unwrap_err().to_string();
        assert!(message.starts_with("record /proc/none: mkdir: "), "{message}");
    }

    #[test]
    fn no_two_clocks_share_a_file() {
        assert_eq!(stems(&["a/b", "a_b", "x", "x-said"]), ["a_b", "a_b-2", "x", "x-said-2"]);
        assert_eq!(stems(&["x-said", "x"]), ["x-said", "x-2"]);
    }

    #[test]
    fn the_folder_is_tried_before() {
        let directory = std::env::temp_dir().join(format!("plimsoll-prepare-{}", std::process::id()));
        prepare_exchanges(&directory.join("a/b")).unwrap();
        assert_eq!(fs::read_dir(directory.join("a/b")).unwrap().count(), 0);
        fs::write(directory.join("file"), "").unwrap();
        let told = prepare_exchanges(&directory.join("file/x")).unwrap_err().to_string();
        assert!(told.ends_with("name a folder that you may write"), "{told}");
        fs::remove_dir_all(&directory).unwrap();
        let full = std::io::Error::from_raw_os_error(28); // ENOSPC
        let told = fail(&directory, "write")(full).to_string();
        assert!(told.ends_with("free some disk, or name a folder on another one"), "{told}");
    }
}
