// What the lattice peers in C++ share: command line, timing, and the line that is printed (bench/README.md has the shape).
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Set {
	const char *name, *scheme;
	int n, level; // limbs of the data modulus, of which the first has 50 bits
	int bits;     // of the others; also the scale
};

static const Set SETS[] = {{"A", "ckks", 1 << 14, 6, 30}, {"B", "ckks", 1 << 15, 13, 49}, {"C", "bgv", 1 << 14, 6, 50}};
static const int PLAIN_MODULUS = 65537;

static void check(bool right, const char *what) {
	if (right) return;
	fprintf(stderr, "wrong: %s\n", what);
	exit(1);
}

struct Bench {
	const Set *set = nullptr; // null: a set that is not had
	std::string filter, engine, backend;
	int dnum = 0, logQP = 0;

	Bench(int argc, char *argv[]) {
		if (argc != 2 && argc != 3) {
			fprintf(stderr, "usage: %s SET [WHAT,WHAT...]\n", argv[0]);
			exit(2);
		}
		for (const Set &candidate : SETS) {
			if (strcmp(argv[1], candidate.name) == 0) set = &candidate;
		}
		if (argc == 3) filter = "," + std::string(argv[2]) + ",";
	}

	bool wanted(const char *what) const {
		return filter.empty() || filter.find("," + std::string(what) + ",") != std::string::npos;
	}

	// Times `work`, each time after `prepare`, which does not count: some 0.2 s, but at least 9 runs.
	template <class Prepare, class Work>
	void measurePrepared(const char *what, Prepare prepare, Work work, int operations = 1) {
		if (!wanted(what)) return;
		std::vector<double> ns;
		double total = 0;
		for (int run = -2; run < 9 || (total < 2e8 && run < 20000); run++) { // the first two warm up
			prepare();
			const auto start = std::chrono::steady_clock::now();
			work();
			const auto end = std::chrono::steady_clock::now();
			if (run < 0) continue;
			ns.push_back(std::chrono::duration<double, std::nano>(end - start).count());
			total += ns.back();
		}
		std::sort(ns.begin(), ns.end());
		printf("{\"job\":\"lattice\",\"what\":\"%s\",\"engine\":\"%s\",\"params\":{\"set\":\"%s\",\"scheme\":\"%s\",\"n\":%d,"
			"\"level\":%d,\"dnum\":%d,\"log_qp\":%d},\"backend\":\"%s\",\"threads\":1,\"unit\":\"ns\",\"median\":%.1f,"
			"\"min\":%.1f,\"max\":%.1f,\"runs\":%zu,\"labels\":[]}\n",
			what, engine.c_str(), set->name, set->scheme, set->n, set->level, dnum, logQP, backend.c_str(),
			ns[ns.size() / 2] / operations, ns.front() / operations, ns.back() / operations, ns.size());
		fflush(stdout);
	}

	template <class Work>
	void measure(const char *what, Work work, int operations = 1) {
		measurePrepared(what, [] {}, work, operations);
	}
};

// splitmix64: for messages only.
static uint64_t next() {
	static uint64_t state = 1;
	uint64_t z = (state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

// Uniform in [-1, 1).
static double nextReal() {
	return (double)(int64_t)next() / 9223372036854775808.0;
}
