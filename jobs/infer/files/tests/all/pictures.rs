//! Pictures as people have them: PNG, JPEG, arrays and folders, in the form of a model.

use super::images::{idx, png_of};
use super::pictures_recorded as recorded;
use super::pictures_recorded::bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tobari_host::testing::{data, not_run};
use tobari_infer::Volume;
use tobari_infer_files::images::{
    Fit, ImageError, Picture, Pictures, Wanted, decode_digit, decode_idx_images, decode_picture, fuzz_images,
    fuzz_pictures, planes, read_pictures,
};

const GREY: Volume = Volume { channels: 1, height: 2, width: 3 };
const COLOUR: Volume = Volume { channels: 3, height: 2, width: 3 };

/// The largest difference of two lists of levels.
fn difference(found: &[u8], expected: &[u8]) -> u8 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

/// Red, green and blue of each pixel.
fn colours(picture: &Picture) -> Vec<u8> {
    assert!(picture.is_opaque());
    picture.pixels.iter().flat_map(|pixel| pixel[..3].to_vec()).collect()
}

fn refusal(result: Result<impl std::fmt::Debug, ImageError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn jpegs_have_the_colours_that_pillow_decodes() {
    let grey = decode_picture("it", &bytes(recorded::GREY)).unwrap();
    assert!(grey.is_grey() && (grey.width, grey.height) == (9, 7));
    let found: Vec<u8> = grey.pixels.iter().map(|pixel| pixel[0]).collect();
    assert!(difference(&found, &bytes(recorded::GREY_PIXELS)) <= 1);
    for (file, size, pixels, most) in [
        (recorded::COLOUR, (11, 7), recorded::COLOUR_PIXELS, 2),
        (recorded::HALVED, (19, 13), recorded::HALVED_PIXELS, 3),
        (recorded::CORNERS, (16, 16), recorded::CORNERS_PIXELS, 2),
    ] {
        let picture = decode_picture("it", &bytes(file)).unwrap();
        assert_eq!((picture.width, picture.height), size);
        let found = difference(&colours(&picture), &bytes(pixels));
        assert!(found <= most, "{size:?}: {found}");
    }
}

/// A JPEG with EXIF data that have this orientation.
fn turned(jpeg: &[u8], orientation: u8, little: bool) -> Vec<u8> {
    let short = |number: u16| if little { number.to_le_bytes() } else { number.to_be_bytes() };
    let long = |number: u32| if little { number.to_le_bytes() } else { number.to_be_bytes() };
    let mut tiff = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
    tiff.extend(long(8));
    tiff.extend(short(2));
    // another tag first: a text of two letters
    tiff.extend([short(0x10f), short(2)].concat());
    tiff.extend([long(2), [b'a', 0, 0, 0]].concat());
    tiff.extend([short(0x112), short(3)].concat());
    tiff.extend([long(1).to_vec(), short(u16::from(orientation)).to_vec(), vec![0; 6]].concat());
    let length = (2 + 6 + tiff.len()) as u16;
    [&jpeg[..2], &[0xff, 0xe1], &length.to_be_bytes(), b"Exif\0\0", &tiff, &jpeg[2..]].concat()
}

#[test]
fn a_photograph_is_turned_upright() {
    // In the file: red, green in the first row; blue, white in the second. The standard says where
    // the file's first row and first column are in the upright picture: top and left for 1, top and
    // right for 2, bottom right, bottom left, left top, right top, right bottom, left bottom.
    let upright = ["rgbw", "grwb", "wbgr", "bwrg", "rbgw", "brwg", "wgbr", "gwrb"];
    let colour = |letter: char| match letter {
        'r' => [255, 0, 0],
        'g' => [0, 255, 0],
        'b' => [0, 0, 255],
        _ => [255, 255, 255],
    };
    for (expected, orientation) in upright.iter().zip(1..) {
        for little in [true, false] {
            let picture = decode_picture("it", &turned(&bytes(recorded::CORNERS), orientation, little)).unwrap();
            for (letter, place) in expected.chars().zip([[4, 4], [12, 4], [4, 12], [12, 12]]) {
                let found = picture.pixels[place[1] * 16 + place[0]];
                let off = difference(&found[..3], &colour(letter));
                assert!(off <= 3, "{orientation}, {place:?}: expected {letter}, found {found:?}");
            }
        }
    }
    // sizes change with the sides, and wrong numbers change nothing
    let file = bytes(recorded::COLOUR);
    for (orientation, size) in [(4, (11, 7)), (5, (7, 11)), (8, (7, 11)), (0, (11, 7)), (9, (11, 7)), (200, (11, 7))] {
        let picture = decode_picture("it", &turned(&file, orientation, true)).unwrap();
        assert_eq!((picture.width, picture.height), size, "{orientation}");
    }
}

#[test]
fn every_kind_of_png_is_a_picture() {
    for (color, depth, row, expected) in [
        (png::ColorType::Grayscale, png::BitDepth::One, vec![0b0100_0000], [[0; 4], [255; 4]]),
        (png::ColorType::Grayscale, png::BitDepth::Sixteen, vec![0, 9, 255, 1], [[0; 4], [255; 4]]),
        (png::ColorType::Rgb, png::BitDepth::Eight, vec![1, 2, 3, 4, 5, 6], [[1, 2, 3, 255], [4, 5, 6, 255]]),
        (png::ColorType::Indexed, png::BitDepth::Two, vec![0b0110_0000], [[4, 5, 6, 255], [7, 8, 9, 255]]),
        (png::ColorType::GrayscaleAlpha, png::BitDepth::Eight, vec![8, 0, 9, 7], [[8, 8, 8, 0], [9, 9, 9, 7]]),
    ] {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == png::ColorType::Indexed {
            encoder.set_palette(vec![1, 2, 3, 4, 5, 6, 7, 8, 9]);
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&row).unwrap();
        writer.finish().unwrap();
        let picture = decode_picture("it", &file).unwrap();
        let expected = if expected[0] == [0; 4] { [[0, 0, 0, 255], [255; 4]] } else { expected };
        assert_eq!(picture.pixels, expected, "{color:?} {depth:?}");
    }
}

#[test]
fn other_files_are_named() {
    for (file, what) in [
        (&b"GIF89a"[..], "a file of the format GIF"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a file of the format WebP"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "a file of the format HEIC"),
        (b"II*\0\x08\0\0\0", "a file of the format TIFF"),
        (b"\x93NUMPY\x01\0", "a .npy file"),
        (b"", "an empty file"),
        (b"hello", "a file of an unknown format"),
    ] {
        let expected = format!("a.jpg: expected a PNG or JPEG, found {what}: save the picture as PNG or JPEG");
        assert_eq!(refusal(decode_picture("a.jpg", file)), expected);
    }
    let refused = refusal(decode_picture("a.jpg", &bytes(recorded::INKS)));
    assert_eq!(refused, "a.jpg: expected grey or colour, found four inks (CMYK): save the picture as RGB");
}

/// The place of a marker.
fn marker(file: &[u8], code: u8) -> usize {
    file.windows(2).position(|pair| pair == [0xff, code]).unwrap()
}

#[test]
fn jpegs_beyond_the_limits_are_refused_before_they_are_decoded() {
    let whole = bytes(recorded::COLOUR);
    let mut large = whole.clone();
    let frame = marker(&large, 0xc0);
    large[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    let refused = decode_picture("large.jpg", &large).unwrap_err();
    let most = (9 << 20) + 8 * large.len();
    assert!(matches!(refused, ImageError::TooLarge { width: 65_535, height: 65_535, .. }), "{refused}");
    assert_eq!(refused.to_string(), format!("large.jpg: expected at most {most} pixels, found 65535 x 65535"));
    // a scan as often as somebody likes
    let scan = marker(&whole, 0xda);
    let end = whole.len() - 2;
    let scans = |count: usize| [&whole[..scan], &whole[scan..end].repeat(count), &whole[end..]].concat();
    let refused = refusal(decode_picture("it", &scans(65)));
    assert_eq!(refused, "it: expected a JPEG of at most 64 scans, found more: save it anew");
    assert_eq!(decode_picture("it", &scans(64)).unwrap(), decode_picture("it", &whole).unwrap());
    // no lengths that lead past the end, no second frame, no other kinds of JPEG
    for (at, value, what) in [
        (frame + 2, 0xff, "found its end in the middle"),
        (frame + 4, 12, "expected 8 bits a sample, found 12"),
        (frame + 1, 0xc3, "expected a baseline or progressive JPEG"),
        (frame + 1, 0xc9, "expected a baseline or progressive JPEG"),
        (frame + 1, 0xd8, "found the beginning of another"),
        (frame + 1, 0xfe, "expected a picture in the JPEG file, found none"),
    ] {
        let mut changed = whole.clone();
        changed[at] = value;
        let refused = refusal(decode_picture("it", &changed));
        assert!(refused.contains(what), "{at}: {refused}");
    }
    let twice = [&whole[..scan], &whole[frame..]].concat();
    assert!(refusal(decode_picture("it", &twice)).contains("expected one frame"));
    for length in 2..whole.len() {
        let refused = refusal(decode_picture("cut.jpg", &whole[..length]));
        assert!(refused.starts_with("cut.jpg: expected a whole JPEG file, found"), "{length}: {refused}");
    }
    // bytes after the end are another picture of the camera
    let more = [&whole[..], b"and more \xff\xd8\xff"].concat();
    assert_eq!(decode_picture("it", &more).unwrap(), decode_picture("it", &whole).unwrap());
}

#[test]
fn changed_bytes_are_refused_or_a_picture() {
    let float = npy("<f4", "(2, 3)", &[0.0f32, 0.5, 1.0, 0.25, 0.75, 1.0].map(f32::to_le_bytes).concat());
    let four = idx(&[1, 1, 2, 3], &[7; 6]);
    let jpegs = [recorded::GREY, recorded::COLOUR, recorded::HALVED].map(bytes);
    for file in jpegs.into_iter().chain([float, four]) {
        fuzz_images(&file);
        for at in 0..file.len() {
            for change in [1, 0x10, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] ^= change;
                // a large picture is no fault, and takes long
                if decode_picture("it", &changed).is_ok_and(|picture| picture.pixels.len() > 100_000) {
                    continue;
                }
                fuzz_pictures(&changed);
            }
            fuzz_pictures(&file[..at]);
            fuzz_pictures(&[&file[..at], &file[at + 1..]].concat());
        }
    }
}

#[test]
fn a_photograph_of_a_digit_is_a_digit() {
    let digit = decode_digit("it", &bytes(recorded::CORNERS));
    assert!(digit.is_ok_and(|digit| digit.pixels.len() == 784));
}

/// 23 x 17 colours that vary from pixel to pixel.
fn formula() -> Picture {
    let level = |x: usize, y: usize, c: usize| ((x * x * 3 + y * 7 + c * 50 + (x * y) % 13 * 9) % 256) as u8;
    let pixel = |at: usize| {
        let (x, y) = (at % 23, at / 23);
        [level(x, y, 0), level(x, y, 1), level(x, y, 2), 255]
    };
    Picture { width: 23, height: 17, pixels: (0..23 * 17).map(pixel).collect() }
}

fn volume(channels: usize, height: usize, width: usize) -> Volume {
    Volume { channels, height, width }
}

#[test]
fn pictures_are_scaled_and_cropped_as_by_pillow() {
    let picture = formula();
    let exact = planes("it", &picture, volume(1, 17, 23), Fit::Exact).unwrap();
    assert_eq!(*exact, bytes(recorded::GREY_LEVELS));
    for (wanted, fit, expected) in [
        (volume(3, 6, 8), Fit::Stretch, recorded::STRETCHED),
        (volume(3, 7, 7), Fit::CropCentre, recorded::CROPPED),
        (volume(1, 11, 30), Fit::Stretch, recorded::ENLARGED),
        (volume(1, 25, 4), Fit::CropCentre, recorded::TALL),
    ] {
        let found = planes("it", &picture, wanted, fit).unwrap();
        let size = wanted.height * wanted.width;
        let found: Vec<u8> = (0..size)
            .flat_map(|at| (0..wanted.channels).map(move |channel| (channel, at)))
            .map(|(c, at)| found[c * size + at])
            .collect();
        let off = difference(&found, &bytes(expected));
        assert!(off <= 1, "{wanted:?} {fit}: {off}");
    }
}

#[test]
fn scaling_keeps_what_it_must_keep() {
    // one level stays one level, at any size
    for (width, height) in [(1, 1), (5, 3), (200, 1)] {
        let flat = Picture::of_grey(width, &vec![77; width * height]);
        for fit in [Fit::Stretch, Fit::CropCentre] {
            let found = planes("it", &flat, volume(1, 7, 4), fit).unwrap();
            assert!(found.iter().all(|level| *level == 77), "{width} x {height}");
        }
    }
    // halving a ramp gives a ramp, except at the ends
    let ramp: Vec<u8> = (0..64).map(|at| at * 4).collect();
    let half = planes("it", &Picture::of_grey(64, &ramp), volume(1, 1, 32), Fit::Stretch).unwrap();
    assert!((1..31).all(|at| half[at] == at as u8 * 8 + 2), "{half:?}");
    // the crop takes the middle third
    let thirds: Vec<u8> = (0..90 * 30).map(|at| if at % 90 / 30 == 1 { 200 } else { 10 }).collect();
    let middle = planes("it", &Picture::of_grey(90, &thirds), volume(1, 30, 30), Fit::CropCentre).unwrap();
    assert!(middle.iter().all(|level| *level == 200));
}

#[test]
fn channels_are_red_green_and_blue_or_grey() {
    let picture = Picture { width: 3, height: 2, pixels: (0..6).map(|at| [at, 100 + at, 200 + at, 255]).collect() };
    let found = planes("it", &picture, COLOUR, Fit::Exact).unwrap();
    assert_eq!(*found, [0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105, 200, 201, 202, 203, 204, 205]);
    // 0.299 red, 0.587 green and 0.114 blue
    let found = planes("it", &picture, GREY, Fit::Exact).unwrap();
    let luma = |at: f64| (0.299 * at + 0.587 * (100.0 + at) + 0.114 * (200.0 + at)).round() as u8;
    assert_eq!(*found, (0..6).map(|at| luma(f64::from(at))).collect::<Vec<u8>>());
    let grey = Picture::of_grey(3, &[5, 6, 7, 8, 9, 10]);
    assert_eq!(planes("it", &grey, COLOUR, Fit::Exact).unwrap().to_vec(), [5, 6, 7, 8, 9, 10].repeat(3));
}

#[test]
fn a_picture_that_does_not_fit_is_refused_with_a_remedy() {
    let refused = refusal(planes("a.png", &formula(), volume(3, 32, 32), Fit::Exact));
    assert_eq!(
        refused,
        "a.png: the model takes 32 x 32 pixels, and the picture has 23 x 17: scale the picture, or choose `stretch` \
         or `crop` instead of `exact`"
    );
    let refused = refusal(planes("a.png", &formula(), volume(4, 17, 23), Fit::Stretch));
    assert!(refused.contains("the model takes 4 channels") && refused.contains(".npy"), "{refused}");
    let clear = Picture { width: 3, height: 2, pixels: vec![[100, 0, 255, 102]; 6] };
    let refused = refusal(planes("a.png", &clear, COLOUR, Fit::Exact));
    assert!(refused.starts_with("a.png: the picture has transparent parts"), "{refused}");
    // two fifths of the colour, three fifths of white
    let white = planes("it", &clear.clone().on_white(), COLOUR, Fit::Exact).unwrap();
    assert_eq!([white[0], white[6], white[12]], [193, 153, 255]);
    for wrong in
        [Picture { width: 0, height: 0, pixels: vec![] }, Picture { width: 3, height: 3, pixels: vec![[0; 4]; 6] }]
    {
        assert!(planes("it", &wrong, COLOUR, Fit::Stretch).is_err());
    }
    assert_eq!(["exact", "stretch", "crop"].map(str::parse), [Fit::Exact, Fit::Stretch, Fit::CropCentre].map(Ok));
    assert!("centre".parse::<Fit>().is_err());
}

/// A `.npy` file of version 1.
fn npy(descr: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    npy_with(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n"), 1, numbers)
}

fn npy_with(header: &str, version: u8, numbers: &[u8]) -> Vec<u8> {
    let length = header.len() as u32;
    let length = if version == 1 { (length as u16).to_le_bytes().to_vec() } else { length.to_le_bytes().to_vec() };
    [b"\x93NUMPY", &[version, 0][..], &length, header.as_bytes(), numbers].concat()
}

/// The pictures in a file with these bytes.
fn read(file: &[u8], wanted: &Wanted) -> Result<Pictures, ImageError> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, file).unwrap();
    read_pictures(&[path], wanted)
}

fn pixels(file: &[u8], volume: Volume) -> Vec<Vec<u8>> {
    read(file, &Wanted::new(volume)).unwrap().iter().map(|picture| picture.pixels.to_vec()).collect()
}

#[test]
fn arrays_of_numpy_are_pictures_in_any_usual_shape() {
    let grey: Vec<u8> = (10..22).collect();
    let two = [grey[..6].to_vec(), grey[6..].to_vec()];
    for shape in ["(2, 1, 2, 3)", "(2,2,3,1)", "(2, 2, 3)"] {
        assert_eq!(pixels(&npy("|u1", shape, &grey), GREY), two, "{shape}");
    }
    for shape in ["(1, 2, 3)", "(2, 3, 1)", "(2, 3)", "(1, 1, 2, 3)"] {
        assert_eq!(pixels(&npy("|u1", shape, &grey[..6]), GREY), two[..1], "{shape}");
    }
    // channel after channel, and pixel after pixel
    let planar: Vec<u8> = (0..36).collect();
    let interleaved: Vec<u8> =
        (0..2).flat_map(|n| (0..6).flat_map(move |at| (0..3).map(move |c| n * 18 + c * 6 + at))).collect();
    let two = [planar[..18].to_vec(), planar[18..].to_vec()];
    assert_eq!(pixels(&npy("|u1", "(2, 3, 2, 3)", &planar), volume(3, 2, 3)), two);
    for (shape, file, expected) in [
        ("(2, 2, 3, 3)", &interleaved[..], &two[..]),
        ("(2, 3, 3)", &interleaved[..18], &two[..1]),
        ("(3, 2, 3)", &planar[..18], &two[..1]),
    ] {
        assert_eq!(pixels(&npy("|u1", shape, file), COLOUR), expected, "{shape}");
    }
    // grey for a model of colours, and colours for a grey model
    let found = pixels(&npy("|u1", "(5, 2, 3)", &[9; 30]), COLOUR);
    assert_eq!(found, vec![vec![9; 18]; 5]);
    let found = pixels(&npy("|u1", "(5, 3, 2, 3)", &[9; 90]), GREY);
    assert_eq!(found, vec![vec![9; 6]; 5]);
    // vectors, and channels that are no colours
    assert_eq!(pixels(&npy("|u1", "(2, 6)", &grey), Volume::vector(6)).len(), 2);
    assert_eq!(pixels(&npy("|u1", "(6,)", &grey[..6]), Volume::vector(6)), two_of(&grey[..6]));
    assert_eq!(pixels(&npy("|u1", "(2, 5, 1, 1)", &grey[..10]), volume(5, 1, 1)), [&grey[..5], &grey[5..10]]);
    // other versions and other spellings of the header
    for version in [2, 3] {
        let header = "{\"shape\": (2, 2, 3), \"fortran_order\":False, \"descr\":\"|u1\"}   \n";
        assert_eq!(pixels(&npy_with(header, version, &grey), GREY).len(), 2);
    }
}

fn two_of(numbers: &[u8]) -> [Vec<u8>; 1] {
    [numbers.to_vec()]
}

#[test]
fn arrays_whose_shape_has_two_meanings_are_refused() {
    let stretch = Wanted { fit: Fit::Stretch, ..Wanted::new(volume(3, 32, 32)) };
    let refused = refusal(read(&npy("|u1", "(3, 28, 28)", &[0; 3 * 784]), &stretch));
    assert!(refused.contains("the shape [3, 28, 28] may be (n, h, w) or (c, h, w): save"), "{refused}");
    let refused = refusal(read(&npy("|u1", "(9, 3, 3, 3)", &[0; 243]), &Wanted::new(volume(3, 3, 3))));
    assert!(refused.contains("may be (n, c, h, w) or (n, h, w, c)"), "{refused}");
    let refused = refusal(read(&npy("|u1", "(9, 3, 2, 2)", &[0; 108]), &Wanted::new(COLOUR)));
    assert!(refused.contains("no reading of the shape [9, 3, 2, 2] is such pictures"), "{refused}");
    assert!(refused.contains("choose `stretch` or `crop`"), "{refused}");
    for (shape, count) in [("()", 1), ("(6,)", 6), ("(1, 1, 1, 2, 3)", 6), ("(0, 2, 3)", 0)] {
        let refused = refusal(read(&npy("|u1", shape, &vec![0; count]), &Wanted::new(GREY)));
        assert!(refused.contains("expected pictures"), "{shape}: {refused}");
    }
    // the same shapes, with one meaning
    let found = read(&npy("|u1", "(9, 28, 28)", &[5; 9 * 784]), &stretch).unwrap();
    assert!(found.len() == 9 && found.pixels().iter().all(|pixels| **pixels == [5; 3072]));
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn numbers_in_floating_point_are_levels_on_a_scale_that_shows() {
    let levels = [0.0, 0.2, 0.501, 1.0, 0.999, 1.0 / 255.0];
    let expected = [vec![0, 51, 128, 255, 255, 1]];
    assert_eq!(pixels(&npy("<f4", "(2, 3)", &floats(&levels)), GREY), expected);
    let big: Vec<u8> = levels.iter().flat_map(|number| number.to_be_bytes()).collect();
    assert_eq!(pixels(&npy(">f4", "(2, 3)", &big), GREY), expected);
    let long: Vec<u8> = levels.iter().flat_map(|number| f64::from(*number).to_le_bytes()).collect();
    assert_eq!(pixels(&npy("<f8", "(2, 3)", &long), GREY), expected);
    let file = npy("<f4", "(2, 3)", &floats(&[0.0, 0.4, 16.0, 254.6, 255.0, 1.0]));
    assert_eq!(pixels(&file, GREY), [[0, 0, 16, 255, 255, 1].to_vec()]);
    for (numbers, what) in [
        ([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], "the largest number is 1, and the scale may end at 1 or at 255"),
        ([0.0; 6], "the largest number is 0, and the scale"),
        ([0.0, 0.5, 1.0, 2.5, 3.0, 15.0], "the largest number is 15, and the scale"),
        ([0.0, 0.5, 1.5, -2.0, 3.0, 20.0], "found -2: save the pictures before their normalisation"),
        ([0.0, 0.5, 1.5, 2.0, 3.0, 255.5], "found 255.5"),
        ([0.0, 0.5, 1.5, 2.0, f32::NAN, 200.0], "found NaN"),
        ([0.0, 0.5, 1.5, 2.0, f32::INFINITY, 200.0], "found inf"),
    ] {
        let refused = refusal(read(&npy("<f4", "(2, 3)", &floats(&numbers)), &Wanted::new(GREY)));
        assert!(refused.contains(what), "{what}: {refused}");
    }
}

#[test]
fn other_arrays_of_numpy_are_refused_with_advice() {
    let wanted = Wanted::new(GREY);
    let header = |text: &str| refusal(read(&npy_with(text, 1, &[0; 6]), &wanted));
    let fortran = header("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}");
    assert!(fortran.ends_with("found that of Fortran: save numpy.ascontiguousarray(pictures)"), "{fortran}");
    for descr in ["'<i8'", "'<f2'", "'|b1'", "'|O'", "[('a', '<f4')]"] {
        let refused = header(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2, 3), }}"));
        assert!(refused.contains("expected the type uint8, float32 or float64, found"), "{descr}: {refused}");
    }
    for text in [
        "",
        "{}",
        "{'descr': '|u1'}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)} more",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), 'shape': (2, 3)}",
        "{'descr': '|u1', 'fortran_order': Maybe, 'shape': (2, 3)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': 6}",
    ] {
        let refused = header(text);
        assert!(refused.contains("expected a dictionary of descr, fortran_order and shape"), "{text}: {refused}");
    }
    for (shape, found) in [("(2, 4)", 6), ("(2, 2)", 6), ("(18446744073709551615, 2, 3)", 6)] {
        let wanted = Wanted { fit: Fit::Stretch, ..wanted };
        let refused = refusal(read(&npy("|u1", shape, &[0; 6]), &wanted));
        assert!(
            refused.contains(&format!("found {found} bytes of numbers")) || refused.contains("set a limit"),
            "{refused}"
        );
    }
    let long = [&b"\x93NUMPY\x02\0"[..], &u32::MAX.to_le_bytes(), b"{}"].concat();
    assert!(refusal(read(&long, &wanted)).contains("expected a header of at most 16384 bytes, found 4294967295"));
    assert!(refusal(read(b"\x93NUMPY\x09\0\x02\0{}", &wanted)).contains("version 1, 2 or 3, found 9"));
    let zip = refusal(read(b"PK\x03\x04....", &wanted));
    assert!(zip.contains("found a zip archive or .npz file: save its array with numpy.save"), "{zip}");
    assert!(refusal(read(b"a,b\n1,2\n", &wanted)).contains("found a file of an unknown format"));
}

#[test]
fn idx_files_may_have_channels() {
    let planar: Vec<u8> = (0..36).collect();
    let interleaved: Vec<u8> =
        (0..2).flat_map(|n| (0..6).flat_map(move |at| (0..3).map(move |c| n * 18 + c * 6 + at))).collect();
    let two = [planar[..18].to_vec(), planar[18..].to_vec()];
    // as images of their own: 1 or 3 in one of the two places
    let first = idx(&[2, 3, 2, 3], &planar);
    assert!(refusal(decode_idx_images("it", &first)).contains("not in both, found 2 of 3 x 2 x 3"));
    let (wide, flat): (Vec<u8>, Vec<u8>) = ((0..24).collect(), (0..24).map(|at| at % 3 * 8 + at / 3).collect());
    for (lengths, numbers) in [([1, 3, 2, 4], &wide), ([1, 2, 4, 3], &flat)] {
        for file in [idx(&lengths, numbers), super::images::gzip(&idx(&lengths, numbers))] {
            let images = decode_idx_images("it", &file).unwrap();
            assert_eq!((images.len(), images.channels, images.height, images.width), (1, 3, 2, 4));
            assert_eq!(images.iter().next().unwrap(), wide);
        }
    }
    assert!(refusal(decode_idx_images("it", &idx(&[1, 2, 4, 5], &[0; 40]))).contains("expected one or three channels"));
    assert!(refusal(decode_idx_images("it", &idx(&[1, 3, 0, 5], &[]))).contains("at least one pixel"));
    // with a model, its shape decides
    for file in [first, idx(&[2, 2, 3, 3], &interleaved)] {
        assert_eq!(pixels(&file, COLOUR), two);
        assert_eq!(pixels(&super::images::gzip(&file), COLOUR), two);
    }
    assert_eq!(pixels(&idx(&[2, 2, 3], &planar[..12]), GREY), [&planar[..6], &planar[6..12]]);
    let labels = refusal(read(&idx(&[6], &[0; 6]), &Wanted::new(GREY)));
    assert!(labels.contains("expected the first bytes [00, 00, 08, 02 to 04], found [00, 00, 08, 01]"), "{labels}");
}

/// A folder of pictures of 3 x 2 pixels: three classes with ten each, two pictures beside them, and
/// files that are no pictures.
fn classes() -> TempDir {
    let folder = TempDir::new().unwrap();
    let picture = |level: u8| png_of(3, 2, png::ColorType::Grayscale, &[level; 6]);
    for (class, name) in ["dog", "cat", "a/bird"].iter().enumerate() {
        let class_folder = folder.path().join(name);
        fs::create_dir_all(&class_folder).unwrap();
        for at in 0..10u8 {
            fs::write(class_folder.join(format!("{at:04}.png")), picture(class as u8 * 50 + at)).unwrap();
        }
    }
    for name in ["zebra.PNG", "b.jpeg"] {
        fs::write(folder.path().join(name), picture(200)).unwrap();
    }
    for name in ["notes.txt", ".DS_Store", "cat/._0001.png", "png"] {
        fs::write(folder.path().join(name), "none").unwrap();
    }
    folder
}

#[test]
fn a_folder_is_read_in_the_order_of_names_with_labels() {
    let folder = classes();
    let root = folder.path().to_owned();
    let pictures = read_pictures(std::slice::from_ref(&root), &Wanted::new(GREY)).unwrap();
    assert_eq!((pictures.len(), pictures.found, pictures.skipped), (32, 32, 4));
    let short = |name: &str| name.strip_prefix(root.to_str().unwrap()).unwrap().trim_start_matches('/').to_owned();
    let names: Vec<String> = pictures.iter().map(|picture| short(&picture.name)).collect();
    assert_eq!(
        [&names[0], &names[9], &names[10], &names[11]],
        ["a/bird/0000.png", "a/bird/0009.png", "b.jpeg", "cat/0000.png"]
    );
    assert_eq!([&names[20], &names[21], &names[31]], ["cat/0009.png", "dog/0000.png", "zebra.PNG"]);
    let labels: Vec<Option<&str>> = pictures.iter().map(|picture| picture.label.as_deref()).collect();
    assert_eq!([labels[0], labels[10], labels[11], labels[30]], [Some("bird"), None, Some("cat"), Some("dog")]);
    assert_eq!(pictures.pixels()[12], [51; 6]);
    // ten of 32: one in each class for every ten, and the same ten each time
    let wanted = Wanted { limit: 10, ..Wanted::new(GREY) };
    let sample = read_pictures(std::slice::from_ref(&root), &wanted).unwrap();
    let chosen: Vec<String> = sample.iter().map(|picture| short(&picture.name)).collect();
    let expected: Vec<String> = [1, 4, 8, 11, 14, 17, 20, 24, 27, 30].map(|at: usize| names[at].clone()).to_vec();
    assert_eq!((chosen, sample.found), (expected, 32));
    assert_eq!(read_pictures(&[root], &Wanted { limit: 32, ..wanted }).unwrap().len(), 32);
}

#[test]
fn several_paths_are_read_one_after_another() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("array"), npy("|u1", "(4, 2, 3)", &(0..24).collect::<Vec<u8>>())).unwrap();
    fs::write(path("one.png"), png_of(3, 2, png::ColorType::Grayscale, &[9; 6])).unwrap();
    fs::write(path("t10k-images-idx3-ubyte.gz"), super::images::gzip(&idx(&[2, 2, 3], &[7; 12]))).unwrap();
    let paths = ["array", "one.png", "t10k-images-idx3-ubyte.gz"].map(path);
    let pictures = read_pictures(&paths, &Wanted::new(GREY)).unwrap();
    let name = |path: &Path, end: &str| format!("{}{end}", path.display());
    let expected =
        [(0, "[0]", 0), (0, "[1]", 6), (0, "[2]", 12), (0, "[3]", 18), (1, "", 9), (2, "[0]", 7), (2, "[1]", 7)];
    assert_eq!(pictures.len(), expected.len());
    for (picture, (path, end, first)) in pictures.iter().zip(expected) {
        assert_eq!((&picture.name, picture.pixels[0], &picture.label), (&name(&paths[path], end), first, &None));
    }
    let sample = read_pictures(&paths, &Wanted { limit: 2, ..Wanted::new(GREY) }).unwrap();
    let names: Vec<&str> = sample.iter().map(|picture| picture.name.as_str()).collect();
    assert_eq!(names, [name(&paths[0], "[1]"), name(&paths[2], "[0]")]);
}

#[test]
fn bad_pictures_in_a_folder_are_named_together() {
    let folder = classes();
    let root = folder.path().to_owned();
    let wanted = Wanted::new(GREY);
    let read = |wanted: &Wanted| refusal(read_pictures(std::slice::from_ref(&root), wanted));
    fs::write(root.join("cat/0003.png"), b"no picture").unwrap();
    let one = read(&wanted);
    assert!(one.contains("cat/0003.png: expected a PNG or JPEG, found a file of an unknown format"), "{one}");
    fs::write(root.join("dog/0003.png"), png_of(4, 2, png::ColorType::Grayscale, &[0; 8])).unwrap();
    let two = read(&wanted);
    let lines: Vec<&str> = two.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "at least 2 pictures cannot be used:"));
    assert!(lines[1].contains("cat/0003.png: expected a PNG"), "{two}");
    assert!(lines[2].contains("dog/0003.png: the model takes 3 x 2 pixels, and the picture has 4 x 2"), "{two}");
    // twenty names are enough
    let all = read(&Wanted::new(volume(1, 9, 9)));
    assert_eq!(all.lines().count(), 21, "{all}");
    assert!(read(&Wanted { limit: 0, ..wanted }).contains("a limit of at least one picture"));
    let none = refusal(read_pictures(&[root.join("none.png")], &wanted));
    assert!(none.contains("none.png: cannot read"), "{none}");
    let empty = TempDir::new().unwrap();
    fs::write(empty.path().join("notes.txt"), "").unwrap();
    let none = refusal(read_pictures(&[empty.path().to_owned()], &wanted));
    assert!(none.ends_with("expected pictures (.png, .jpg, .jpeg) in the folder, found 1 other files"), "{none}");
    assert!(refusal(read_pictures(&[], &wanted)).contains("expected pictures, found none"));
    let huge = Wanted { fit: Fit::Stretch, ..Wanted::new(volume(3, 1 << 13, 1 << 13)) };
    assert!(read(&huge).contains("expected at most 10 pictures of this size, found 32: set a limit"));
}

#[test]
#[cfg(unix)]
fn links_in_a_folder_are_not_followed() {
    let folder = classes();
    let outside = classes();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("more")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("zebra.PNG"), folder.path().join("again.png")).unwrap();
    let pictures = read_pictures(&[folder.path().to_owned()], &Wanted::new(GREY)).unwrap();
    assert_eq!((pictures.len(), pictures.skipped), (32, 7));
    // a link that the caller names is followed
    assert_eq!(read_pictures(&[folder.path().join("more")], &Wanted::new(GREY)).unwrap().len(), 32);
    assert_eq!(read_pictures(&[folder.path().join("again.png")], &Wanted::new(GREY)).unwrap().len(), 1);
    assert!(refusal(read_pictures(&[PathBuf::from("/dev/null")], &Wanted::new(GREY))).contains("found a device"));
}

#[test]
fn pictures_of_cifar_have_the_colours_that_pillow_decodes() {
    const NAME: &str = "pictures_of_cifar_have_the_colours_that_pillow_decodes";
    let Some(archive) = data(NAME, "cifar/test.tar.xz") else { return };
    let folder = TempDir::new().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder.path()).args(["test/cat/0001.jpg", "test/dog/0002.jpg"]);
    if !tar.status().is_ok_and(|status| status.success()) {
        return not_run(NAME, "tar cannot unpack a .tar.xz");
    }
    let pictures = read_pictures(&[folder.path().join("test")], &Wanted::new(volume(3, 32, 32))).unwrap();
    let labels: Vec<Option<&str>> = pictures.iter().map(|picture| picture.label.as_deref()).collect();
    assert_eq!(labels, [Some("cat"), Some("dog")]);
    let cat = pictures.pixels()[0];
    let found: Vec<u8> = (0..3072).step_by(13).map(|at| cat[at % 3 * 1024 + at / 3]).collect();
    let off = difference(&found, &bytes(recorded::CAT));
    assert!(off <= 2, "{off}");
}
