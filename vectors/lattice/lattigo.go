// Answers of Lattigo for the tests of BGV and CKKS: run it with a folder for the files. Elements are
// written by coefficients, modulo each prime. Its randomness is new in each run.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Ten hexadecimal digits a residue, row after row.
func rows(coefficients [][]uint64) string {
	var out strings.Builder
	for _, row := range coefficients {
		for _, value := range row {
			fmt.Fprintf(&out, "%010x", value)
		}
	}
	return out.String()
}

// An element of Q from its transform.
func element(r *ring.Ring, poly ring.Poly) string {
	copied := *poly.CopyNew()
	r.INTT(copied, copied)
	return rows(copied.Coeffs)
}

func ciphertext(out *os.File, params rlwe.Parameters, name string, factor uint64, ct *rlwe.Ciphertext) {
	r := params.RingQ().AtLevel(ct.Level())
	fmt.Fprintf(out, "ciphertext %s %d %d", name, ct.Level()+1, factor)
	for _, part := range ct.Value {
		fmt.Fprintf(out, " %s", element(r, part))
	}
	fmt.Fprintln(out)
}

func head(out *os.File, params rlwe.Parameters, sk *rlwe.SecretKey) {
	fmt.Fprintf(out, "degree %d\nprimes", params.N())
	for _, prime := range append(append([]uint64{}, params.Q()...), params.P()...) {
		fmt.Fprintf(out, " %d", prime)
	}
	r := params.RingQ().AtLevel(0)
	secret := *sk.Value.Q.CopyNew()
	secret.Resize(0)
	r.INTT(secret, secret)
	r.IMForm(secret, secret)
	fmt.Fprint(out, "\nsecret ")
	for i, value := range secret.Coeffs[0] {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		if value == params.Q()[0]-1 {
			fmt.Fprint(out, "-1")
		} else {
			fmt.Fprint(out, value)
		}
	}
	fmt.Fprintln(out)
}

// A key by its digits: b and a, over Q and then P.
func key(out *os.File, params rlwe.Parameters, name string, gadget rlwe.GadgetCiphertext) {
	fmt.Fprintf(out, "key %s", name)
	both := params.RingQP()
	for _, digit := range gadget.Value {
		for _, part := range digit[0] {
			copied := *part.CopyNew()
			both.INTT(copied, copied)
			both.IMForm(copied, copied)
			fmt.Fprintf(out, " %s%s", rows(copied.Q.Coeffs), rows(copied.P.Coeffs))
		}
	}
	fmt.Fprintln(out)
}

// The records of a file.
type records int

const (
	end   records = iota // the end of a circuit
	some                 // its steps and keys
	every                // more steps, and slots
)

func exact(path string, logN int, logQ []int, t uint64, wanted records) {
	params := must(bgv.NewParametersFromLiteral(bgv.ParametersLiteral{
		LogN: logN, LogQ: logQ, LogP: []int{39}, PlaintextModulus: t,
	}))
	out := must(os.Create(path))
	defer out.Close()
	generator := rlwe.NewKeyGenerator(params)
	sk := generator.GenSecretKeyNew()
	relin := generator.GenRelinearizationKeyNew(sk)
	steps := []int{1, 2, -5}
	if wanted == some {
		steps = []int{-5}
	}
	elements := []uint64{params.GaloisElementForRowRotation()}
	for _, step := range steps {
		elements = append(elements, params.GaloisElement(step))
	}
	galois := generator.GenGaloisKeysNew(elements, sk)
	keys := rlwe.NewMemEvaluationKeySet(relin, galois...)
	encoder, evaluator := bgv.NewEncoder(params), bgv.NewEvaluator(params, keys)
	encryptor, decryptor := rlwe.NewEncryptor(params, generator.GenPublicKeyNew(sk)), rlwe.NewDecryptor(params, sk)
	head(out, params.Parameters, sk)
	fmt.Fprintf(out, "modulus %d\n", t)
	slots := func(name string, values []int64) {
		fmt.Fprintf(out, "slots %s %s\n", name, strings.ReplaceAll(strings.Trim(fmt.Sprint(values), "[]"), " ", ","))
	}
	encrypt := func(name string, of func(i int64) int64) *rlwe.Ciphertext {
		values := make([]int64, params.MaxSlots())
		for i := range values {
			values[i] = of(int64(i))
		}
		if wanted == every {
			slots(name, values)
		}
		plaintext := bgv.NewPlaintext(params, params.MaxLevel())
		check(encoder.Encode(values, plaintext))
		return must(encryptor.EncryptNew(plaintext))
	}
	write := func(name string, ct *rlwe.Ciphertext) {
		ciphertext(out, params.Parameters, name, ct.Scale.Uint64(), ct)
		if wanted != every {
			return
		}
		values := make([]int64, params.MaxSlots())
		check(encoder.Decode(decryptor.DecryptNew(ct), values))
		slots(name, values)
	}
	half := int64(t / 2)
	a := encrypt("a", func(i int64) int64 { return (i*i*7+i*3)%int64(t) - half })
	b := encrypt("b", func(i int64) int64 { return half - (i*11+5)%int64(t) })
	product := must(evaluator.MulNew(a, b))
	switched := must(evaluator.RelinearizeNew(product))
	if wanted != end {
		key(out, params.Parameters, "relinearisation", relin.GadgetCiphertext)
		for i, step := range steps {
			key(out, params.Parameters, fmt.Sprintf("rotation%d", step), galois[i+1].GadgetCiphertext)
		}
		write("fresh-a", a)
		write("fresh-b", b)
		write("product", product)
		write("relinearised", switched)
		for _, step := range steps {
			write(fmt.Sprintf("rotated%d", step), must(evaluator.RotateColumnsNew(a, step)))
		}
	}
	if wanted == every {
		write("swapped", must(evaluator.RotateRowsNew(a)))
	}
	check(evaluator.Rescale(switched, switched))
	if wanted != end {
		write("switched", switched)
	} else {
		rotated := must(evaluator.RotateColumnsNew(switched, -5))
		check(evaluator.Rescale(rotated, rotated))
		write("product-rotated-5", rotated)
	}
}

func approximate(path string, logN int, all bool) {
	params := must(ckks.NewParametersFromLiteral(ckks.ParametersLiteral{
		LogN: logN, LogQ: []int{39, 30, 30}, LogP: []int{39}, LogDefaultScale: 30,
	}))
	out := must(os.Create(path))
	defer out.Close()
	generator := rlwe.NewKeyGenerator(params)
	sk := generator.GenSecretKeyNew()
	relin := generator.GenRelinearizationKeyNew(sk)
	steps := []int{1, 2, -5}
	elements := []uint64{params.GaloisElementForComplexConjugation()}
	for _, step := range steps {
		elements = append(elements, params.GaloisElement(step))
	}
	galois := generator.GenGaloisKeysNew(elements, sk)
	keys := rlwe.NewMemEvaluationKeySet(relin, galois...)
	encoder, evaluator := ckks.NewEncoder(params), ckks.NewEvaluator(params, keys)
	encryptor, decryptor := rlwe.NewEncryptor(params, generator.GenPublicKeyNew(sk)), rlwe.NewDecryptor(params, sk)
	head(out, params.Parameters, sk)
	encrypt := func(name string, of func(i int) complex128) *rlwe.Ciphertext {
		values := make([]complex128, params.MaxSlots())
		for i := range values {
			values[i] = of(i)
		}
		plaintext := ckks.NewPlaintext(params, params.MaxLevel())
		check(encoder.Encode(values, plaintext))
		if all {
			fmt.Fprintf(out, "polynomial %s %s\n", name, element(params.RingQ(), plaintext.Value))
		}
		return must(encryptor.EncryptNew(plaintext))
	}
	write := func(name string, ct *rlwe.Ciphertext) {
		ciphertext(out, params.Parameters, name, 0, ct)
		if all {
			values := make([]complex128, params.MaxSlots())
			check(encoder.Decode(decryptor.DecryptNew(ct), values))
			fmt.Fprintf(out, "scale %s %.17g\nslots %s ", name, ct.Scale.Float64(), name)
			for i, value := range values {
				if i > 0 {
					fmt.Fprint(out, ",")
				}
				fmt.Fprintf(out, "%.9f%+.9fi", real(value), imag(value))
			}
			fmt.Fprintln(out)
		}
	}
	of := func(i int, period, phase int) float64 { return float64((i*13+phase)%period)/float64(period)*2 - 1 }
	a := encrypt("a", func(i int) complex128 { return complex(of(i, 101, 0), of(i, 89, 7)) })
	b := encrypt("b", func(i int) complex128 { return complex(of(i, 97, 3), of(i, 83, 5)) })
	product := must(evaluator.MulNew(a, b))
	switched := must(evaluator.RelinearizeNew(product))
	if all {
		key(out, params.Parameters, "relinearisation", relin.GadgetCiphertext)
		for i, step := range steps {
			key(out, params.Parameters, fmt.Sprintf("rotation%d", step), galois[i+1].GadgetCiphertext)
		}
		write("fresh-a", a)
		write("fresh-b", b)
		write("product", product)
		write("relinearised", switched)
		for _, step := range steps {
			write(fmt.Sprintf("rotated%d", step), must(evaluator.RotateNew(a, step)))
		}
		write("conjugated", must(evaluator.ConjugateNew(a)))
	}
	check(evaluator.Rescale(switched, switched))
	if all {
		write("rescaled", switched)
	} else {
		rotated := must(evaluator.RotateNew(switched, -5))
		evaluator.DropLevel(rotated, 1)
		write("product-rotated-5", rotated)
	}
}

func main() {
	folder := os.Args[1]
	exact(folder+"/lattigo-bgv-64.txt", 6, []int{39, 39, 39}, 257, every)
	exact(folder+"/lattigo-bgv-4096.txt", 12, []int{39, 39}, 114689, some)
	exact(folder+"/lattigo-bgv-16384.txt", 14, []int{39, 39, 39}, 65537, end)
	approximate(folder+"/lattigo-ckks-64.txt", 6, true)
	approximate(folder+"/lattigo-ckks-16384.txt", 14, false)
}
