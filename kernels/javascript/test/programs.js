'use strict';

/** Small programs, the same for the same seed. What they use they have declared before. */
class Programs {
  #state;
  #names = 0;

  constructor(seed) {
    this.#state = (seed * 2654435761) >>> 0;
  }

  /** The statements of a program. */
  program() {
    const scope = [];
    return Array.from({ length: 3 + this.#below(6) }, () => this.#statement(scope, 2, true));
  }

  #below(limit) {
    // Numerical Recipes' generator; the high bits are the better ones.
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }

  #pick(list) {
    return list[this.#below(list.length)];
  }

  #fresh(letter) {
    return `${letter}${++this.#names}`;
  }

  #statement(scope, depth, isTop = false) {
    const simple = [
      () => this.#declaration(scope, isTop),
      () => this.#declaration(scope, isTop),
      () => `${this.#expression(scope)};`,
      () => `;(${this.#expression(scope)});`,
      () => `log.push(${this.#expression(scope)});`,
      () => this.#assignment(scope),
    ];
    const compound = [
      () => `if (${this.#expression(scope)}) ${this.#block(scope, depth)} else ${this.#block(scope, depth)}`,
      () => `if (${this.#expression(scope)}) ${this.#block(scope, depth)}`,
      () => `if (${this.#expression(scope)}) ${this.#expression(scope)}; else log.push(${this.#expression(scope)});`,
      () => this.#loop(scope, depth),
      () => `try ${this.#block(scope, depth)} catch (error) { log.push(error.name); } finally ${this.#block(scope, depth)}`,
      () => this.#block(scope, depth),
      () => `switch (${this.#below(3)}) { case 0: ${this.#expression(scope)}; break; case 1: ${this.#expression(scope)}; default: ${this.#block(scope, depth)} }`,
    ];
    return this.#pick(depth > 0 ? [...simple, ...simple, ...compound] : simple)();
  }

  #block(scope, depth) {
    const inner = [...scope];
    const statements = Array.from({ length: this.#below(3) }, () => this.#statement(inner, depth - 1));
    return `{ ${statements.join('; ')} }`;
  }

  #loop(scope, depth) {
    const name = this.#fresh('i');
    const inner = [...scope, { name, kind: 'loop' }];
    const body = `{ log.push(${name}); ${this.#statement(inner, depth - 1)}; }`;
    return this.#pick([
      `for (let ${name} = 0; ${name} < 2; ${name}++) ${body}`,
      `for (const ${name} of [1, 2]) ${body}`,
      `for (let ${name} in { p: 1, q: 2 }) ${body}`,
      `label: for (let ${name} = 0; ${name} < 3; ${name}++) { if (${name} === 2) break label; ${body} }`,
    ]);
  }

  #declaration(scope, isTop) {
    const name = this.#fresh('v');
    const other = this.#fresh('v');
    const value = this.#expression(scope);
    // Functions belong to their block or to everybody, depending on history; at the top they are simple.
    const whole = isTop ? [`function ${name}(a) { return [a, ${value}]; }`] : [];
    const [kind, code, names] = this.#pick([
      ['let', `let ${name} = ${value};`, [name]],
      ['let', `let ${name};`, [name]],
      ['const', `const ${name} = ${value};`, [name]],
      ['const', `const ${name} = ${value}, ${other} = [${value}];`, [name, other]],
      ['const', `const { a: ${name}, ...${other} } = { a: ${value}, b: 2 };`, [name, other]],
      ['let', `let [${name}, ${other} = ${value}] = [1];`, [name, other]],
      ['let', `let { ${name} = ${value} } = {};`, [name]],
      ['var', `var ${name} = ${value};`, [name]],
      ['let', `class ${name} { m() { return ${value}; } static s = ${value}; }`, [name]],
      ...whole.map((text) => ['let', text, [name]]),
    ]);
    for (const declared of names) scope.push({ name: declared, kind });
    return code;
  }

  #assignment(scope) {
    if (scope.length === 0) return ';';
    const { name } = this.#pick(scope.filter(({ kind }) => kind !== 'loop').concat(scope[0]));
    const value = this.#expression(scope);
    const target = this.#pick([`${name} = ${value}`, `[${name}] = [${value}]`, `({ ${name} } = { ${name}: ${value} })`]);
    // A constant must refuse, and the program go on.
    return `;try { ${target}; } catch (error) { log.push(error.message); }`;
  }

  #expression(scope, depth = 2) {
    const leaves = ['0', '1', '"s"', 'true', '[]', 'undefined', ...scope.map(({ name }) => `typeof ${name}`)];
    if (depth === 0) return this.#pick(leaves);
    const inner = () => this.#expression(scope, depth - 1);
    return this.#pick([
      () => this.#pick(leaves),
      () => this.#pick(leaves),
      () => `(${inner()} + ${inner()})`,
      () => `[${inner()}, ${inner()}]`,
      () => `((a) => [a, ${inner()}])(${inner()})`,
      () => `(${inner()} ? ${inner()} : ${inner()})`,
      () => `({ k: ${inner()} }).k`,
      () => `(function () { var x = ${inner()}; let y = x; return y; })()`,
    ])();
  }
}

module.exports = { Programs };
