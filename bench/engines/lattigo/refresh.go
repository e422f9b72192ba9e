package main

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
	"github.com/tuneinsight/lattigo/v6/utils"
)

// Refreshes complex slots with the library's first set for dense secrets, three times after one
// that warms up, and prints the time, the bits of the worst slot, and the levels left.
func runRefresh(logSlots int) {
	debug.SetGCPercent(25) // keys and tables take most of the memory
	literal := bootstrapping.DefaultParametersDense[0]
	params, err := ckks.NewParametersFromLiteral(literal.SchemeParams)
	must(err)
	literal.BootstrappingParams.LogSlots = utils.Pointy(logSlots)
	refresh, err := bootstrapping.NewParametersFromLiteral(params, literal.BootstrappingParams)
	must(err)
	generator := rlwe.NewKeyGenerator(params)
	secret := generator.GenSecretKeyNew()
	keys, _, err := refresh.GenEvaluationKeys(secret)
	must(err)
	bytes := keys.MemEvaluationKeySet.BinarySize() + keys.EvkDenseToSparse.BinarySize() + keys.EvkSparseToDense.BinarySize()
	evaluator, err := bootstrapping.NewEvaluator(refresh, keys)
	must(err)
	encoder, encryptor, decryptor := ckks.NewEncoder(params), rlwe.NewEncryptor(params, secret), rlwe.NewDecryptor(params, secret)
	slots := 1 << logSlots
	x, found := make([]complex128, slots), make([]complex128, slots)
	for i := range slots {
		x[i] = complex(nextReal(), nextReal())
	}
	plain := ckks.NewPlaintext(params, 0)
	plain.LogDimensions.Cols = logSlots
	must(encoder.Encode(x, plain))
	var ns []float64
	worst, left := 0.0, 0
	for run := range 4 {
		c, err := encryptor.EncryptNew(plain)
		must(err)
		start := time.Now()
		out, err := evaluator.Bootstrap(c)
		must(err)
		taken := float64(time.Since(start).Nanoseconds())
		must(encoder.Decode(decryptor.DecryptNew(out), found))
		for i := range slots {
			worst = max(worst, math.Abs(real(found[i]-x[i])), math.Abs(imag(found[i]-x[i])))
		}
		left = out.Level()
		if run > 0 {
			ns = append(ns, taken)
		}
	}
	check(worst < 0.001, "bootstrap")
	slices.Sort(ns)
	full := refresh.BootstrappingParameters
	digits := full.BaseRNSDecompositionVectorSize(full.MaxLevelQ(), full.MaxLevelP())
	// one set serves both precisions
	for _, what := range []string{"bootstrap", "bootstrap_20"} {
		fmt.Printf(`{"job":"lattice","what":"%s","engine":"lattigo %s","params":{"set":"R%d","scheme":"ckks","n":%d,`+
			`"level":%d,"dnum":%d,"log_qp":%.0f,"slots":%d,"bits":%.2f,"levels":%d,"key_bytes":%d},"backend":"go",`+
			`"threads":1,"unit":"ns","median":%.1f,"min":%.1f,"max":%.1f,"runs":%d,"labels":[]}`+"\n", what, version(),
			logSlots, full.N(), full.MaxLevel()+1, digits, full.LogQP(), slots, -math.Log2(worst), left, bytes,
			ns[len(ns)/2], ns[0], ns[len(ns)-1], len(ns))
	}
}
