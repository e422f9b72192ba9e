//! Line plots on two logarithmic axes, as SVG.

use plotters::coord::combinators::LogCoord;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tobari_command::output::Failure;

const SIZE: (u32, u32) = (960, 620);
const LEGEND_WIDTH: u32 = 200;
const LEGEND_LINE: i32 = 21;

/// The content of a plot.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    /// The title above the legend's colours.
    pub(super) groups: String,
    /// A limit line, and its name.
    pub(super) limit: (f64, String),
    pub(super) series: Vec<Series>,
}

/// The engine whose lines are thick.
pub(super) const OURS: &str = "tobari";
const PAPER: &str = "paper";

/// A line with a mark at each point.
pub(super) struct Series {
    /// The group, shown by colour; our lines and the paper's may share a group.
    pub(super) group: usize,
    /// The engine: [`OURS`], thick with filled marks; `paper`, thin with open ones; a peer, thin
    /// with its own mark.
    pub(super) engine: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// The plot as the text of an SVG file.
pub(super) fn svg(plot: &Plot) -> Result<String, Failure> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let of = |value: fn(&(f64, f64)) -> f64| range(plot.series.iter().flat_map(|series| &series.points).map(value));
    let (x, y) = (of(|point| point.0), of(|point| point.1));
    let mut chart = axes(&left, [&plot.title, &plot.x, &plot.y], x, y)?;
    let groups = groups(plot);
    chart.draw_series(LineSeries::new([(x.0, plot.limit.0), (x.1, plot.limit.0)], BLACK.stroke_width(2)))?;
    for series in &plot.series {
        let colour = colour(&groups, series.group);
        let points = series.points.iter().copied();
        let width = if series.engine == OURS { 3 } else { 1 };
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(width)))?;
        let peer = peers(plot).iter().position(|peer| *peer == series.engine);
        chart.draw_series(points.map(|point| mark(point, &series.engine, peer, colour)))?;
    }
    legend(plot, &groups, &right)?;
    root.present()?;
    drop(chart);
    drop((left, right, root));
    Ok(text)
}

/// The engines that are neither ours nor the paper's.
fn peers(plot: &Plot) -> Vec<&str> {
    let engines = plot.series.iter().map(|series| series.engine.as_str());
    let mut peers: Vec<&str> = engines.filter(|engine| ![OURS, PAPER].contains(engine)).collect();
    peers.dedup();
    peers
}

/// The mark: a disc for ours, a ring for the paper's, a small disc for the first peer, a small ring
/// for others.
fn mark<C>(at: C, engine: &str, peer: Option<usize>, colour: HSLColor) -> Circle<C, i32> {
    let filled = peer.map_or(engine == OURS, |peer| peer == 0);
    let style = if filled { colour.filled() } else { colour.stroke_width(1) };
    Circle::new(at, if peer.is_some() { 2 } else { 4 }, style)
}

/// The range of the values, a little widened, so that no mark lies on the frame.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold((f64::MAX, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
    (0.8 * least, 1.25 * most)
}

type Logarithmic = Cartesian2d<LogCoord<f64>, LogCoord<f64>>;

/// A frame with two logarithmic axes, a title, and the names of the axes.
fn axes<'a, 'b>(
    area: &'b Area<'a>,
    [title, x_name, y_name]: [&str; 3],
    x: (f64, f64),
    y: (f64, f64),
) -> Result<ChartContext<'b, SVGBackend<'a>, Logarithmic>, Failure> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d((x.0..x.1).log_scale().base(2.0), (y.0..y.1).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(16)
        .y_labels(10)
        .x_label_formatter(&|x| x.to_string())
        .y_label_formatter(&|y| y.to_string())
        .x_desc(x_name)
        .y_desc(y_name)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .draw()?;
    Ok(chart)
}

/// All groups, ascending.
fn groups(plot: &Plot) -> Vec<usize> {
    let mut groups: Vec<usize> = plot.series.iter().map(|series| series.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The group's colour: from red to violet, dark enough on white, and every second one darker.
fn colour(groups: &[usize], group: usize) -> HSLColor {
    let place = groups.iter().position(|&other| other == group).unwrap_or(0);
    let lightness = if place.is_multiple_of(2) { 0.45 } else { 0.3 };
    HSLColor(0.87 * place as f64 / groups.len() as f64, 0.9, lightness)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn legend(plot: &Plot, groups: &[usize], area: &Area) -> Result<(), Failure> {
    let text = ("sans-serif", 14).into_font().into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
    let mut line = 2 * LEGEND_LINE;
    let peers = peers(plot);
    let mut entry = |label: &str, sample: Option<(&str, HSLColor)>| -> Result<(), Failure> {
        if let Some((engine, colour)) = sample {
            let width = if engine == OURS { 3 } else { 1 };
            let peer = peers.iter().position(|peer| *peer == engine);
            area.draw(&PathElement::new([(8, line), (38, line)], colour.stroke_width(width)))?;
            area.draw(&mark((23, line), engine, peer, colour))?;
        }
        area.draw(&Text::new(label.to_owned(), (if sample.is_some() { 46 } else { 8 }, line), text.clone()))?;
        line += LEGEND_LINE;
        Ok(())
    };
    let grey = HSLColor(0.0, 0.0, 0.3);
    entry("ours, measured", Some((OURS, grey)))?;
    entry("paper, as printed", Some((PAPER, grey)))?;
    for peer in &peers {
        entry(peer.split('-').next().unwrap_or(peer), Some((peer, grey)))?; // a revision would not fit
    }
    entry("", None)?;
    entry(&plot.groups, None)?;
    for group in groups {
        let ours = plot.series.iter().any(|series| series.group == *group && series.engine == OURS);
        entry(&group.to_string(), Some((if ours { OURS } else { PAPER }, colour(groups, *group))))?;
    }
    entry("", None)?;
    area.draw(&PathElement::new([(8, line), (38, line)], BLACK.stroke_width(2)))?;
    area.draw(&Text::new(plot.limit.1.clone(), (46, line), text))?;
    Ok(())
}

/// Named lines.
pub(super) struct Curves {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) series: Vec<(String, Vec<(f64, f64)>)>,
}

/// The lines as the text of an SVG file, both axes logarithmic.
pub(super) fn curves(curves: &Curves) -> Result<String, Failure> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let of = |value: fn(&(f64, f64)) -> f64| range(curves.series.iter().flat_map(|series| &series.1).map(value));
    let (x, y) = (of(|point| point.0), of(|point| point.1));
    let mut chart = axes(&left, [&curves.title, &curves.x, &curves.y], x, y)?;
    let all: Vec<usize> = (0..curves.series.len()).collect();
    let name = ("sans-serif", 14).into_font().into_text_style(&right).pos(Pos::new(HPos::Left, VPos::Center));
    for (at, (label, points)) in curves.series.iter().enumerate() {
        let (colour, line) = (colour(&all, at), (2 + at as i32) * LEGEND_LINE);
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        right.draw(&PathElement::new([(8, line), (38, line)], colour.stroke_width(2)))?;
        right.draw(&Text::new(label.clone(), (46, line), name.clone()))?;
    }
    root.present()?;
    drop(chart);
    drop((left, right, root));
    Ok(text)
}

/// Bars in groups, from 1 on a logarithmic axis.
pub(super) struct Bars {
    title: String,
    x: String,
    /// Group, name within it, value.
    all: Vec<(String, String, f64)>,
}

impl Bars {
    /// A plot without bars.
    pub(super) fn new(title: &str, x: &str) -> Self {
        Self { title: title.to_owned(), x: x.to_owned(), all: Vec::new() }
    }

    /// Adds a bar.
    pub(super) fn push(&mut self, group: &str, name: &str, value: f64) {
        self.all.push((group.to_owned(), name.to_owned(), value));
    }
}

/// The bars as the text of an SVG file.
pub(super) fn bars(bars: &Bars) -> Result<String, Failure> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let most = bars.all.iter().map(|bar| bar.2).fold(1.5, f64::max);
    let count = bars.all.len().max(1);
    let mut chart = ChartBuilder::on(&root)
        .caption(&bars.title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(110)
        .y_label_area_size(60)
        .build_cartesian_2d(0f64..count as f64, (0.9..most * 1.2).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|y| format!("{y:.2}"))
        .y_desc(&bars.title)
        .label_style(("sans-serif", 14))
        .draw()?;
    let mut groups: Vec<&str> = bars.all.iter().map(|bar| bar.0.as_str()).collect();
    groups.dedup();
    let colour = |group: &str| Palette99::pick(groups.iter().position(|other| *other == group).unwrap_or(0)).mix(0.8);
    chart.draw_series(bars.all.iter().enumerate().map(|(i, (group, _, value))| {
        let place = i as f64;
        Rectangle::new([(place + 0.15, 0.9), (place + 0.85, *value)], colour(group).filled())
    }))?;
    let (names, values) = (("sans-serif", 12).into_font().transform(FontTransform::Rotate90), ("sans-serif", 12));
    for (i, (group, name, value)) in bars.all.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(i as f64 + 0.5, 0.9));
        let name = if name.is_empty() { group.clone() } else { format!("{group}: {name}") };
        root.draw(&Text::new(name, (x + 6, y + 6), names.clone()))?;
        let (x, y) = chart.backend_coord(&(i as f64 + 0.2, *value));
        root.draw(&Text::new(format!("{value:.2}"), (x, y - 15), values))?;
    }
    root.draw(&Text::new(bars.x.clone(), (12, SIZE.1 as i32 - 20), values))?;
    root.present()?;
    drop(chart);
    drop(root);
    Ok(text)
}
