// Lattigo on the task of `tobari-bench lattice`, on one thread.
//
//	./lattigo SET [WHAT,WHAT...]  prints one JSON line for each operation (bench/README.md has the shape); nothing for a set
//	                              it does not have
//
// The library is used as it comes, with special primes of 50 bits, one garbage collection for four times the live memory and
// ciphertexts that are reused. In CKKS slots are complex. `decrypt` ends with a polynomial, what is done to get integers
// from it is `decode`. `add` is in place. In BGV rotations are hoisted with the functions that CKKS uses for it.
package main

import (
	"fmt"
	"math"
	"math/cmplx"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/ring/ringqp"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

const (
	plainModulus = 65537
	hoisted      = 8
)

type set struct {
	name, scheme string
	logN, level  int // limbs of the data modulus, of which the first has 50 bits
	bits         int // of the others; also the scale
	special      int // primes, of 50 bits
}

var sets = []set{{"A", "ckks", 14, 6, 30, 2}, {"B", "ckks", 15, 13, 49, 3}, {"C", "bgv", 14, 6, 50, 2}}

func (s *set) logQ() []int {
	bits := slices.Repeat([]int{s.bits}, s.level)
	bits[0] = 50
	return bits
}

func (s *set) logP() []int { return slices.Repeat([]int{50}, s.special) }

func check(right bool, what string) {
	if !right {
		fmt.Fprintln(os.Stderr, "wrong:", what)
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// splitmix64: for messages only.
var state uint64 = 1

func next() uint64 {
	state += 0x9e3779b97f4a7c15
	z := state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Uniform in [-1, 1).
func nextReal() float64 { return float64(int64(next())) / (1 << 63) }

type bench struct {
	set    *set
	filter []string
	params rlwe.Parameters
}

// Times `work`: some 0.2 s, but at least 9 runs.
func (b *bench) measure(what string, operations float64, work func()) {
	if b.filter != nil && !slices.Contains(b.filter, what) {
		return
	}
	var ns []float64
	var total float64
	for run := -2; run < 9 || (total < 2e8 && run < 20000); run++ { // the first two warm up
		start := time.Now()
		work()
		taken := float64(time.Since(start).Nanoseconds())
		if run >= 0 {
			ns = append(ns, taken/operations)
			total += taken
		}
	}
	slices.Sort(ns)
	dnum := (b.set.level + b.set.special - 1) / b.set.special
	fmt.Printf(`{"job":"lattice","what":"%s","engine":"lattigo %s","params":{"set":"%s","scheme":"%s","n":%d,"level":%d,`+
		`"dnum":%d,"log_qp":%.0f},"backend":"go","threads":1,"unit":"ns","median":%.1f,"min":%.1f,"max":%.1f,"runs":%d,`+
		`"labels":[]}`+"\n", what, version(), b.set.name, b.set.scheme, b.params.N(), b.set.level, dnum, b.params.LogQP(),
		ns[len(ns)/2], ns[0], ns[len(ns)-1], len(ns))
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if strings.HasSuffix(module.Path, "/lattigo/v6") {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "?"
}

// What the evaluators of both schemes have.
type evaluator interface {
	Add(a *rlwe.Ciphertext, b rlwe.Operand, out *rlwe.Ciphertext) error
	Mul(a *rlwe.Ciphertext, b rlwe.Operand, out *rlwe.Ciphertext) error
	MulRelin(a *rlwe.Ciphertext, b rlwe.Operand, out *rlwe.Ciphertext) error
	Relinearize(a, out *rlwe.Ciphertext) error
	Rescale(a, out *rlwe.Ciphertext) error
	DecomposeNTT(levelQ, levelP, specialPrimes int, c ring.Poly, isNTT bool, out []ringqp.Poly)
	AutomorphismHoisted(level int, in *rlwe.Ciphertext, digits []ringqp.Poly, element uint64, out *rlwe.Ciphertext) error
	Automorphism(in *rlwe.Ciphertext, element uint64, out *rlwe.Ciphertext) error
}

type keys struct {
	secret     *rlwe.SecretKey
	public     *rlwe.PublicKey
	evaluation *rlwe.MemEvaluationKeySet
}

func makeKeys(params rlwe.Parameters) (k keys) {
	generator := rlwe.NewKeyGenerator(params)
	k.secret, k.public = generator.GenKeyPairNew()
	var elements []uint64
	for step := 1; step <= hoisted; step++ {
		elements = append(elements, params.GaloisElement(step))
	}
	k.evaluation = rlwe.NewMemEvaluationKeySet(generator.GenRelinearizationKeyNew(k.secret),
		generator.GenGaloisKeysNew(elements, k.secret)...)
	return k
}

// What a slot has to be, given its place.
type slot func(i int) complex128

// Everything but encoding. `expect` checks that slot i is f(i).
func (b *bench) operations(k keys, eval evaluator, plain, factor *rlwe.Plaintext,
	expect func(c *rlwe.Ciphertext, what string, f slot), first, sum, product slot, rotated func(step int) slot) {
	p, top := b.params, b.set.level-1
	public, secret := rlwe.NewEncryptor(p, k.public), rlwe.NewEncryptor(p, k.secret)
	decryptor := rlwe.NewDecryptor(p, k.secret)
	cipher := func(degree, level int) *rlwe.Ciphertext {
		c := rlwe.NewCiphertext(p, degree, level)
		*c.MetaData = *plain.MetaData
		return c
	}
	a, c, out, tensor, lower := cipher(1, top), cipher(1, top), cipher(1, top), cipher(2, top), cipher(1, top-1)
	must(public.Encrypt(plain, a))
	must(secret.Encrypt(factor, c))
	expect(a, "encrypt_public", first)
	must(eval.Add(a, c, out))
	expect(out, "encrypt_secret, add", sum)
	must(eval.Mul(a, factor, out))
	expect(out, "mul_plain", product)
	must(eval.Rescale(out, lower))
	expect(lower, "rescale", product)
	must(eval.Mul(a, c, tensor))
	expect(tensor, "tensor", product)
	must(eval.Relinearize(tensor, out))
	expect(out, "relinearize", product)
	relinearized := out.CopyNew()
	mul := func() {
		must(eval.MulRelin(a, c, out))
		must(eval.Rescale(out, lower))
	}
	mul()
	expect(lower, "mul", product)
	must(eval.Automorphism(a, p.GaloisElement(1), out))
	expect(out, "rotate", rotated(1))
	digits := make([]ringqp.Poly, p.BaseRNSDecompositionVectorSize(top, p.MaxLevelP()))
	for i := range digits {
		digits[i] = p.RingQP().NewPoly()
	}
	rotateHoisted := func() {
		eval.DecomposeNTT(top, p.MaxLevelP(), p.PCount(), a.Value[1], a.IsNTT, digits)
		for step := 1; step <= hoisted; step++ {
			must(eval.AutomorphismHoisted(top, a, digits, p.GaloisElement(step), out))
		}
	}
	rotateHoisted()
	expect(out, "rotate_hoisted_8", rotated(hoisted))

	sub := p.RingQ().SubRings[0]
	values := make([]uint64, p.N())
	for i := range values {
		values[i] = next() % sub.Modulus
	}
	before := slices.Clone(values)
	sub.NTT(values, values)
	check(!slices.Equal(values, before), "ntt_forward")
	sub.INTT(values, values)
	check(slices.Equal(values, before), "ntt_inverse")
	b.measure("ntt_forward", 1, func() { sub.NTT(values, values) })
	b.measure("ntt_inverse", 1, func() { sub.INTT(values, values) })

	b.measure("encrypt_public", 1, func() { must(public.Encrypt(plain, out)) })
	b.measure("encrypt_secret", 1, func() { must(secret.Encrypt(plain, out)) })
	opened := rlwe.NewPlaintext(p, top)
	b.measure("decrypt", 1, func() { decryptor.Decrypt(a, opened) })
	accumulator := a.CopyNew()
	b.measure("add", 1, func() { must(eval.Add(accumulator, c, accumulator)) })
	b.measure("mul_plain", 1, func() { must(eval.Mul(a, factor, out)) })
	b.measure("tensor", 1, func() { must(eval.Mul(a, c, tensor)) })
	b.measure("mul", 1, mul)
	b.measure("relinearize", 1, func() { must(eval.Relinearize(tensor, out)) })
	b.measure("rescale", 1, func() { must(eval.Rescale(relinearized, lower)) })
	b.measure("rotate", 1, func() { must(eval.Automorphism(a, p.GaloisElement(1), out)) })
	b.measure("rotate_hoisted_8", hoisted, rotateHoisted)
}

func (b *bench) runCkks() {
	params, err := ckks.NewParametersFromLiteral(ckks.ParametersLiteral{LogN: b.set.logN, LogQ: b.set.logQ(),
		LogP: b.set.logP(), LogDefaultScale: b.set.bits})
	must(err)
	b.params = params.Parameters
	k := makeKeys(b.params)
	encoder, decryptor := ckks.NewEncoder(params), rlwe.NewDecryptor(params, k.secret)
	slots := params.MaxSlots()
	x, y, found := make([]complex128, slots), make([]complex128, slots), make([]complex128, slots)
	for i := range slots {
		x[i], y[i] = complex(nextReal(), nextReal()), complex(nextReal(), nextReal())
	}
	plain, factor := ckks.NewPlaintext(params, params.MaxLevel()), ckks.NewPlaintext(params, params.MaxLevel())
	must(encoder.Encode(x, plain))
	must(encoder.Encode(y, factor))
	b.operations(k, ckks.NewEvaluator(params, k.evaluation), plain, factor, func(c *rlwe.Ciphertext, what string, f slot) {
		must(encoder.Decode(decryptor.DecryptNew(c), found))
		for i := range slots {
			check(cmplx.Abs(found[i]-f(i)) < 0.02, what)
		}
	}, func(i int) complex128 { return x[i] }, func(i int) complex128 { return x[i] + y[i] },
		func(i int) complex128 { return x[i] * y[i] },
		func(step int) slot { return func(i int) complex128 { return x[(i+step)%slots] } })
	b.measure("encode", 1, func() { must(encoder.Encode(x, plain)) })
	ciphertext, err := rlwe.NewEncryptor(params, k.public).EncryptNew(plain)
	must(err)
	opened := decryptor.DecryptNew(ciphertext)
	b.measure("decode", 1, func() { must(encoder.Decode(opened, found)) })
	b.measure("open", 1, func() {
		decryptor.Decrypt(ciphertext, opened)
		must(encoder.Decode(opened, found))
	})
}

func (b *bench) runBgv() {
	params, err := bgv.NewParametersFromLiteral(bgv.ParametersLiteral{LogN: b.set.logN, LogQ: b.set.logQ(),
		LogP: b.set.logP(), PlaintextModulus: plainModulus})
	must(err)
	b.params = params.Parameters
	k := makeKeys(b.params)
	encoder, decryptor := bgv.NewEncoder(params), rlwe.NewDecryptor(params, k.secret)
	slots := params.MaxSlots()
	half := slots / 2
	x, y, found := make([]uint64, slots), make([]uint64, slots), make([]uint64, slots)
	for i := range slots {
		x[i], y[i] = next()%plainModulus, next()%plainModulus
	}
	plain, factor := bgv.NewPlaintext(params, params.MaxLevel()), bgv.NewPlaintext(params, params.MaxLevel())
	must(encoder.Encode(x, plain))
	must(encoder.Encode(y, factor))
	number := func(m uint64) complex128 { return complex(float64(m%plainModulus), 0) }
	b.operations(k, bgv.NewEvaluator(params, k.evaluation), plain, factor, func(c *rlwe.Ciphertext, what string, f slot) {
		must(encoder.Decode(decryptor.DecryptNew(c), found))
		for i := range slots {
			check(found[i] == uint64(math.Round(real(f(i)))), what)
		}
	}, func(i int) complex128 { return number(x[i]) }, func(i int) complex128 { return number(x[i] + y[i]) },
		func(i int) complex128 { return number(x[i] * y[i]) },
		func(step int) slot { return func(i int) complex128 { return number(x[i/half*half+(i+step)%half]) } })
	b.measure("encode", 1, func() { must(encoder.Encode(x, plain)) })
	ciphertext, err := rlwe.NewEncryptor(params, k.public).EncryptNew(plain)
	must(err)
	opened := decryptor.DecryptNew(ciphertext)
	b.measure("decode", 1, func() { must(encoder.Decode(opened, found)) })
	b.measure("open", 1, func() {
		decryptor.Decrypt(ciphertext, opened)
		must(encoder.Decode(opened, found))
	})
}

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: lattigo SET [WHAT,WHAT...]")
		os.Exit(2)
	}
	if log, found := map[string]int{"R14": 14, "R15": 15}[os.Args[1]]; found {
		runRefresh(log)
		return
	}
	b := &bench{}
	for i := range sets {
		if sets[i].name == os.Args[1] {
			b.set = &sets[i]
		}
	}
	if b.set == nil {
		return
	}
	if len(os.Args) == 3 {
		b.filter = strings.Split(os.Args[2], ",")
	}
	if b.set.scheme == "ckks" {
		b.runCkks()
	} else {
		b.runBgv()
	}
}
