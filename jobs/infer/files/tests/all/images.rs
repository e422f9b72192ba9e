//! Pictures of digits: files of MNIST and PNG.

use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use tobari_host::testing::data;
use tobari_infer::Model;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer_files::images::{
    Digit, ImageError, Note, decode_digit, decode_idx_images, decode_idx_labels, decode_png, fuzz_images, read_digit,
    read_idx_images, read_idx_labels,
};

pub(super) fn png_of(width: usize, height: usize, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

fn grey(width: usize, height: usize, pixels: &[u8]) -> Digit {
    decode_digit("it", &png_of(width, height, png::ColorType::Grayscale, pixels)).unwrap()
}

/// A drawn digit, enlarged, at a position on a larger sheet.
fn sheet(digit: u8, times: usize, width: usize, height: usize, corner: [usize; 2]) -> Vec<u8> {
    let small = draw(digit, &STYLES[2]);
    let mut pixels = vec![0; width * height];
    for row in 0..28 * times {
        for column in 0..28 * times {
            pixels[(row + corner[0]) * width + column + corner[1]] = small[row / times * 28 + column / times];
        }
    }
    pixels
}

fn label(digit: &Digit) -> usize {
    Model::digits().unwrap().fixed().unwrap().classify(&digit.pixels).unwrap()
}

#[test]
fn an_image_in_mnists_form_is_taken_as_it_is() {
    for digit in 0..10 {
        for style in &STYLES {
            let image = draw(digit, style);
            let found = grey(28, 28, &image);
            assert!(found.pixels == image && found.notes.is_empty(), "{digit} {style:?}: {:?}", found.notes);
        }
    }
}

#[test]
fn a_digit_on_a_larger_sheet_is_found_scaled_and_centred() {
    for digit in 0..10 {
        let pixels = sheet(digit, 5, 300, 200, [40, 120]);
        let found = grey(300, 200, &pixels);
        assert_eq!(label(&found), usize::from(digit));
        assert!(matches!(found.notes[..], [Note::Centred { .. }]), "{:?}", found.notes);
        let ink: Vec<usize> = (0..784).filter(|at| found.pixels[*at] >= 64).collect();
        let columns = || ink.iter().map(|at| at % 28);
        let height = ink[ink.len() - 1] / 28 - ink[0] / 28 + 1;
        let width = columns().max().unwrap() - columns().min().unwrap() + 1;
        assert!((19..=20).contains(&height.max(width)), "{digit}: {height} x {width}");
        let mass: f64 = found.pixels.iter().map(|pixel| f64::from(*pixel)).sum();
        let centre = |place: fn(usize) -> usize| {
            let moment = found.pixels.iter().enumerate().map(|(at, pixel)| place(at) as f64 * f64::from(*pixel));
            moment.sum::<f64>() / mass
        };
        for centre in [centre(|at| at / 28), centre(|at| at % 28)] {
            assert!((centre - 14.0).abs() <= 0.51, "{digit}: centre at {centre}");
        }
    }
}

#[test]
fn an_image_that_is_off_the_middle_is_centred() {
    let drawn = draw(3, &STYLES[0]);
    let mut moved = vec![0; 784];
    moved[..28 * 24].copy_from_slice(&drawn[28 * 4..]);
    let found = grey(28, 28, &moved);
    assert!(matches!(found.notes[..], [Note::Centred { height: 18..=22, .. }]), "{:?}", found.notes);
    assert_eq!(label(&found), 3);
}

#[test]
fn dark_ink_colours_and_transparent_paper_are_understood() {
    for digit in [2u8, 5, 8] {
        let ink = sheet(digit, 3, 100, 120, [10, 5]);
        let inverted: Vec<u8> = ink.iter().map(|pixel| 255 - pixel).collect();
        let found = grey(100, 120, &inverted);
        assert_eq!((label(&found), found.notes[0]), (usize::from(digit), Note::Inverted));
        // pencil on grey paper
        let pale: Vec<u8> = ink.iter().map(|pixel| 200 - pixel / 3).collect();
        let found = grey(100, 120, &pale);
        assert_eq!((label(&found), &found.notes[..2]), (usize::from(digit), &[Note::Inverted, Note::Stretched][..]));
        // blue ink on white
        let blue: Vec<u8> = ink.iter().flat_map(|pixel| [255 - pixel, 255 - pixel, 255]).collect();
        let found = decode_digit("it", &png_of(100, 120, png::ColorType::Rgb, &blue)).unwrap();
        assert_eq!((label(&found), &found.notes[..2]), (usize::from(digit), &[Note::Colour, Note::Inverted][..]));
        // black and white ink on a transparent background
        for brightness in [0, 255] {
            let clear: Vec<u8> = ink.iter().flat_map(|pixel| [brightness, *pixel]).collect();
            let found = decode_digit("it", &png_of(100, 120, png::ColorType::GrayscaleAlpha, &clear)).unwrap();
            assert_eq!((label(&found), found.notes[0]), (usize::from(digit), Note::Transparent));
        }
    }
}

#[test]
fn what_is_no_digit_is_refused_and_said() {
    for blank in [vec![0; 784], vec![255; 784], vec![130; 784], (0..784).map(|at| (at % 20) as u8).collect()] {
        let refused = decode_digit("sheet.png", &png_of(28, 28, png::ColorType::Grayscale, &blank)).unwrap_err();
        assert_eq!(refused.to_string(), "sheet.png: expected a digit, found a blank picture");
    }
    let clear = png_of(28, 28, png::ColorType::Rgba, &vec![0; 4 * 784]);
    assert!(matches!(decode_digit("it", &clear), Err(ImageError::Blank { .. })));
    let whole = png_of(28, 28, png::ColorType::Grayscale, &draw(4, &STYLES[0]));
    for length in 0..whole.len() {
        let refused = decode_digit("cut.png", &whole[..length]).unwrap_err();
        assert!(refused.to_string().starts_with("cut.png: expected a whole PNG file, found"), "{length}: {refused}");
    }
    for text in [&b"GIF89a"[..], b"%PDF-1.7 and more than eight bytes", b""] {
        assert!(matches!(decode_digit("it", text), Err(ImageError::Malformed { .. })));
    }
}

#[test]
fn a_picture_that_claims_to_be_large_is_refused_before_it_is_read() {
    // only the header is changed, with its checksum
    let mut bytes = png_of(28, 28, png::ColorType::Grayscale, &[0; 784]);
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    let refused = decode_digit("large.png", &bytes).unwrap_err();
    assert!(matches!(refused, ImageError::TooLarge { width: 65_536, height: 65_536, .. }), "{refused}");
    assert!(refused.to_string().contains("expected at most 16777216 pixels, found 65536 x 65536"), "{refused}");
}

/// Bytes that do not compress.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(next).collect()
}

#[test]
fn fault_32_a_short_file_is_no_large_picture() {
    let grey = |width: usize, height: usize, pixels: &[u8]| png_of(width, height, png::ColorType::Grayscale, pixels);
    let (width, height) = (4096, 2400);
    let short = grey(width, height, &vec![0; width * height]);
    assert!(short.len() < 100_000, "{}", short.len());
    let refused = decode_png("blank.png", &short).unwrap_err().to_string();
    let most = (9 << 20) + short.len() * 5 / 2;
    let expected = format!("blank.png: expected at most {most} pixels in a file of {} bytes, in at most", short.len());
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.ends_with("found 4096 x 2400: cut the picture or scale it down"), "{refused}");
    // as many pixels as any file may have, and more in a picture with content
    for (height, pixels) in [(2304, vec![0; 4096 * 2304]), (2400, noise(4096 * 2400))] {
        let picture = decode_png("it", &grey(width, height, &pixels)).unwrap();
        assert_eq!((picture.width, picture.height, picture.pixels.len()), (width, height, width * height));
        assert!(picture.pixels.iter().zip(&pixels).all(|(found, grey)| *found == [*grey, *grey, *grey, 255]));
    }
    let wide = 1 << 14;
    assert!(decode_png("it", &grey(wide, 1, &vec![0; wide])).is_ok());
    assert!(decode_png("it", &grey(wide + 1, 1, &vec![0; wide + 1])).is_err());
}

#[test]
fn fault_32_channels_are_spread_in_their_order() {
    let bytes = noise(4 * 35);
    for (color, channels) in [
        (png::ColorType::Grayscale, 1),
        (png::ColorType::GrayscaleAlpha, 2),
        (png::ColorType::Rgb, 3),
        (png::ColorType::Rgba, 4),
    ] {
        let picture = decode_png("it", &png_of(5, 7, color, &bytes[..35 * channels])).unwrap();
        let pixel = |p: &[u8]| match *p {
            [grey] => [grey, grey, grey, 255],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, 255],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => panic!("one to four channels"),
        };
        let expected: Vec<[u8; 4]> = bytes[..35 * channels].chunks_exact(channels).map(pixel).collect();
        assert_eq!((picture.width, picture.height, &picture.pixels), (5, 7, &expected));
    }
}

#[test]
fn changed_bytes_are_refused_or_a_digit() {
    let whole = png_of(28, 28, png::ColorType::Grayscale, &draw(4, &STYLES[0]));
    let idx = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2][..], &[7; 8]].concat();
    for file in [whole, idx] {
        for at in 0..file.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] ^= change;
                fuzz_images(&changed);
            }
            fuzz_images(&file[..at]);
        }
    }
}

pub(super) fn idx(lengths: &[u32], numbers: &[u8]) -> Vec<u8> {
    let lengths_bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_be_bytes()).collect();
    [&[0, 0, 8, lengths.len() as u8][..], &lengths_bytes, numbers].concat()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn idx_files_are_read_plain_and_compressed() {
    let numbers: Vec<u8> = (0..24).collect();
    let file = idx(&[2, 3, 4], &numbers);
    for bytes in [file.clone(), gzip(&file)] {
        let images = decode_idx_images("it", &bytes).unwrap();
        assert_eq!((images.len(), images.height, images.width), (2, 3, 4));
        assert_eq!(images.iter().collect::<Vec<_>>(), [&numbers[..12], &numbers[12..]]);
    }
    assert_eq!(decode_idx_labels("it", &gzip(&idx(&[3], &[5, 0, 9]))).unwrap(), [5, 0, 9]);
}

#[test]
fn fault_32_a_compressed_file_is_read_to_ten_times_its_bytes() {
    // nine times the file's bytes are accepted, twenty times are not
    let file = |blank: usize| {
        let numbers = [noise(100_000), vec![0; blank]].concat();
        gzip(&idx(&[numbers.len() as u32 / 1000, 10, 100], &numbers))
    };
    let images = decode_idx_images("it", &file(800_000)).unwrap();
    assert_eq!((images.len(), images.pixels.len()), (900, 900_000));
    assert!(images.pixels.capacity() <= 900_001, "{}", images.pixels.capacity());
    let bomb = file(2_000_000);
    let refused = decode_idx_images("bomb.gz", &bomb).unwrap_err().to_string();
    let most = 10 * bomb.len() + (1 << 16);
    assert_eq!(
        refused,
        format!(
            "bomb.gz: expected at most {most} bytes when decompressed, found 2100016: decompress the file first (`gunzip`)"
        )
    );
    // a short file may contain 2^16 bytes
    assert_eq!(decode_idx_labels("it", &gzip(&idx(&[1 << 16], &[3; 1 << 16]))).unwrap(), [3; 1 << 16]);
    // lengths that differ from the file's
    for (count, found) in [(20, "20"), (30, "more")] {
        let refused = decode_idx_images("it", &gzip(&idx(&[2, 3, 4], &vec![0; count]))).unwrap_err().to_string();
        assert_eq!(refused, format!("it: expected 24 numbers after the lengths, found {found}"));
    }
    let damaged = {
        let mut file = gzip(&idx(&[2, 3, 4], &[0; 24]));
        let sum = file.len() - 8;
        file[sum] ^= 1;
        file
    };
    let refused = decode_idx_images("it", &damaged).unwrap_err().to_string();
    assert!(refused.starts_with("it: expected a whole gzip file, found"), "{refused}");
}

#[test]
fn idx_files_whose_lengths_are_not_theirs_are_refused() {
    for wrong in [
        idx(&[2, 3, 4], &[0; 23]),
        idx(&[2, 3, 4], &[0; 25]),
        idx(&[u32::MAX, u32::MAX, u32::MAX], &[0; 8]),
        idx(&[0, 3, 4], &[]),
        idx(&[24], &[0; 24]),
        idx(&[2, 3, 4], &[0; 24])[..10].to_vec(),
        vec![],
        vec![0, 0, 9, 3, 0, 0, 0, 0],
        gzip(&idx(&[2, 3, 4], &[0; 24]))[..30].to_vec(),
    ] {
        let refused = decode_idx_images("train.gz", &wrong).unwrap_err();
        assert!(refused.to_string().starts_with("train.gz: expected"), "{refused}");
    }
    assert!(decode_idx_labels("it", &idx(&[2, 3, 4], &[0; 24])).is_err());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing = std::path::Path::new("no-such-digit.png");
    assert!(read_digit(missing).unwrap_err().to_string().contains("no-such-digit.png"));
}

#[test]
fn the_model_reads_nearly_all_test_images() {
    let Some(folder) = data("the_model_reads_nearly_all_test_images", "mnist") else { return };
    let images = read_idx_images(&folder.join("t10k-images-idx3-ubyte.gz")).unwrap();
    let labels = read_idx_labels(&folder.join("t10k-labels-idx1-ubyte.gz")).unwrap();
    assert_eq!((images.len(), labels.len(), images.height, images.width), (10_000, 10_000, 28, 28));
    let model = Model::digits().unwrap();
    let fixed = model.fixed().unwrap();
    let (mut right, mut other, mut taken, mut read) = (0, 0, 0, 0);
    for (at, (image, label)) in images.iter().zip(&labels).enumerate() {
        let class = fixed.classify(image).unwrap();
        right += usize::from(class == usize::from(*label));
        let logits = model.forward(image).unwrap();
        let best = (0..10).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
        other += usize::from(best != class);
        if at % 10 == 0 {
            // as a photograph: dark on light, three times as large
            let photo: Vec<u8> = (0..84 * 84).map(|at| 240 - image[at / 84 / 3 * 28 + at % 84 / 3] / 2).collect();
            let digit = grey(84, 84, &photo);
            read += usize::from(fixed.classify(&digit.pixels).unwrap() == usize::from(*label));
            taken += usize::from(grey(28, 28, image).notes.is_empty());
        }
    }
    println!("{right} right, {other} otherwise in doubles; of 1000: {read} as photographs, {taken} taken as they are");
    assert!(right >= 9_890, "{right} of 10,000");
    assert!(other <= 5, "{other} labels differ between doubles and integers");
    assert!(read >= 970, "{read} of 1,000 photographs");
    assert!(taken >= 970, "{taken} of 1,000 taken as they are");
}
