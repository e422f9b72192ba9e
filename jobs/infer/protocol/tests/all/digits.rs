//! The trained model on drawn digits.

use tobari_infer::Model;
use tobari_infer::digits::{STYLES, draw};

#[test]
fn drawn_digits_are_read_as_what_they_are() {
    let (model, fixed) = (Model::digits().unwrap(), Model::digits().unwrap().fixed().unwrap());
    let mut wrong = Vec::new();
    for (at, style) in STYLES.iter().enumerate() {
        for digit in 0..10 {
            let image = draw(digit, style);
            let found = fixed.classify(&image).unwrap();
            if found != usize::from(digit) {
                wrong.push(format!("style {at}: {digit} as {found}"));
            }
            let ranges = model.ranges(&[&image]).unwrap();
            assert!(ranges.iter().all(|range| range.seen <= 1.0), "{ranges:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_model_is_small_and_of_the_papers_shape() {
    let model = Model::digits().unwrap();
    let shapes: Vec<[usize; 3]> =
        model.stages().iter().map(|stage| [stage.output.channels, stage.output.height, stage.output.width]).collect();
    assert_eq!(shapes, [[5, 12, 12], [50, 4, 4], [1, 1, 10]]);
    assert_eq!((model.input().len(), model.classes()), (784, 10));
    assert!(model.encode().len() < 100_000);
    assert!(model.fixed().is_ok());
    for stage in model.stages() {
        assert!(stage.map.weights().iter().all(|w| (w * 2f64.powi(stage.weight_bits as i32)).abs() < 32_768.0));
    }
}
