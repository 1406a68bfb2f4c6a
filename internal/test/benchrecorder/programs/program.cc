/* A bit of everything that programs do: parsing, trees, hash tables, sorting and small
 * matrices. The compiler chooses what is instrumented. */
#include "measure.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define APART __attribute__((noinline))

namespace {

uint64_t seed;

APART uint64_t next()
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Expressions, as text and as trees. */

struct node {
	char op;
	long value;
	std::unique_ptr<node> left, right;
};

void write(std::string &out, int depth)
{
	if (depth == 0) {
		out += std::to_string(next() % 1000);
		return;
	}
	out += '(';
	write(out, depth - 1);
	out += "+-*"[next() % 3];
	write(out, next() % depth);
	out += ')';
}

struct parser {
	const std::string &text;
	size_t at = 0;

	APART void blanks()
	{
		while (at < text.size() && text[at] == ' ')
			at++;
	}

	APART long number()
	{
		long v = 0;
		while (at < text.size() && text[at] >= '0' && text[at] <= '9')
			v = v * 10 + (text[at++] - '0');
		return v;
	}

	std::unique_ptr<node> expression()
	{
		auto n = std::make_unique<node>();
		blanks();
		if (text[at] != '(') {
			n->value = number();
			return n;
		}
		at++;
		n->left = expression();
		blanks();
		n->op = text[at++];
		n->right = expression();
		blanks();
		at++;
		return n;
	}
};

APART long evaluate(const node &n)
{
	if (!n.op)
		return n.value;
	long a = evaluate(*n.left), b = evaluate(*n.right);
	return (n.op == '+' ? a + b : n.op == '-' ? a - b : a * b) % 1000003;
}

long expressions()
{
	long sum = 0;
	for (int i = 0; i < 20; i++) {
		std::string text;
		write(text, 8);
		parser p{text};
		sum += evaluate(*p.expression());
	}
	return sum;
}

/* Words, counted and sorted. */

APART std::string word()
{
	std::string w;
	for (uint64_t r = next(), n = 3 + r % 8; n--; r /= 26)
		w += static_cast<char>('a' + r % 26);
	return w;
}

struct by_count {
	APART bool operator()(const std::pair<std::string, int> &a, const std::pair<std::string, int> &b) const
	{
		return a.second != b.second ? a.second > b.second : a.first < b.first;
	}
};

long words()
{
	std::unordered_map<std::string, int> counts;
	std::map<std::string, long> index;
	for (int i = 0; i < 3000; i++) {
		std::string w = word();
		counts[w.substr(0, 3)]++;
		index[w] += i;
	}
	std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
	std::sort(sorted.begin(), sorted.end(), by_count());
	long sum = sorted.front().second;
	for (auto &entry : index)
		sum += entry.second % 7;
	return sum;
}

/* Matrices. */

struct matrix {
	double a[6][6];
};

APART matrix multiply(const matrix &x, const matrix &y)
{
	matrix z{};
	for (int i = 0; i < 6; i++)
		for (int j = 0; j < 6; j++)
			for (int k = 0; k < 6; k++)
				z.a[i][j] += x.a[i][k] * y.a[k][j];
	return z;
}

APART void normalize(matrix &m)
{
	double largest = 1;
	for (auto &row : m.a)
		for (double v : row)
			largest = std::max(largest, v < 0 ? -v : v);
	for (auto &row : m.a)
		for (double &v : row)
			v /= largest;
}

long matrices()
{
	matrix m, step;
	for (int i = 0; i < 36; i++) {
		m.a[i / 6][i % 6] = static_cast<double>(next() % 100);
		step.a[i / 6][i % 6] = static_cast<double>(next() % 10) - 5;
	}
	for (int i = 0; i < 3000; i++) {
		m = multiply(m, step);
		normalize(m);
	}
	return static_cast<long>(m.a[2][3] * 1000);
}

volatile long sink;

} // namespace

PLAIN unsigned long work()
{
	seed = 88172645463325252;
	sink = expressions() + words() + matrices();
	return 1;
}
