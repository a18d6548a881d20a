/**
 * Finds small changes that break a program, and builds a source that holds all of them. Each is off until its
 * number is the active one, so one copy of the sources serves every mutant:
 *
 *     if (a < b) throw error;
 *     if ((__m(1) ? !(a < b) : (__m(2) ? a <= b : a < b))) { if (!__m(3)) throw error; }
 */

import { parseSync } from "rolldown/utils";

export interface Mutant {
  readonly id: number;
  readonly file: string;
  readonly line: number;
  readonly what: string;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

type Anything = Node & Record<string, unknown>;

interface Change {
  readonly what: string;
  /** The changed expression. Null: the statement is dropped. */
  readonly text: string | null;
}

const OTHER_OPERATOR: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "&&": "||",
  "||": "&&",
};
/** Methods whose call can be left out, and those that have an opposite. */
const LEFT_OUT = new Set(["filter", "slice", "sort", "toSorted", "reverse"]);
const OPPOSITE = new Map([
  ["some", "every"],
  ["every", "some"],
]);
/** Calls that say or mark something, and decide nothing. */
const MARKS = /^(failpoint|hitFailpoint)$/;
const ERRORS = /Error$|Failure$|^Misuse$/;
const DROPPED = new Set([
  "ExpressionStatement",
  "ThrowStatement",
  "ReturnStatement",
  "BreakStatement",
  "ContinueStatement",
]);
const ERASED = new Set(["TSAsExpression", "TSNonNullExpression", "TSSatisfiesExpression"]);

/** The source with every mutant of it. `first` is the number of its first mutant. */
export function mutate(file: string, text: string, first: number): { mutants: Mutant[]; text: string } {
  const { program } = parseSync(file, text, { lang: "ts" });
  const found = new Finder(file, text, first);
  const changed = found.render(program as unknown as Anything);
  return { mutants: found.mutants, text: changed };
}

class Finder {
  readonly mutants: Mutant[] = [];
  readonly #file: string;
  readonly #text: string;
  readonly #first: number;
  readonly #fixed = new Set<Anything>();

  constructor(file: string, text: string, first: number) {
    this.#file = file;
    this.#text = text;
    this.#first = first;
  }

  #source({ start, end }: Node): string {
    return this.#text.slice(start, end);
  }

  #add(node: Node, what: string): number {
    const id = this.#first + this.mutants.length;
    const line = this.#text.slice(0, node.start).split("\n").length;
    this.mutants.push({ id, file: this.#file, line, what });
    return id;
  }

  /** The text of a node, with the mutants inside it. `isFixed`: the node itself stays as it is. */
  render(node: Anything, isFixed = false, isTest = false): string {
    if (node.type === "ChainExpression") for (const part of spineOf(node)) this.#fixed.add(part);
    const changes = isFixed || this.#fixed.has(node) ? [] : this.#changes(node, isTest);
    const ids = changes.map(({ what }) => this.#add(node, what));
    const inside = this.#inside(node);
    if (changes[0]?.text === null) return `{ if (!__m(${ids[0]})) ${inside} }`;
    return changes.reduceRight((rest, { text }, index) => `(__m(${ids[index]}) ? ${text} : ${rest})`, inside);
  }

  #inside(node: Anything): string {
    let at = node.start;
    let made = "";
    for (const { child, isFixed, isTest } of childrenOf(node)) {
      made += this.#text.slice(at, child.start) + this.render(child, isFixed, isTest);
      at = child.end;
    }
    return made + this.#text.slice(at, node.end);
  }

  #changes(node: Anything, isTest: boolean): Change[] {
    const short = (text: string): string => text.replace(/\s+/g, " ").slice(0, 70);
    const source = this.#source(node);
    if (DROPPED.has(node.type)) return isMark(node) ? [] : [{ what: `drop ${short(source)}`, text: null }];
    const others = this.#expressions(node);
    if (isTest && others.length === 0) others.push(`!(${source})`);
    return others.map((text) => ({ what: `${short(source)} → ${short(text)}`, text }));
  }

  /** Other expressions in place of this one. */
  #expressions(node: Anything): string[] {
    const part = (name: string): string => this.#source(node[name] as Node);
    switch (node.type) {
      case "LogicalExpression": {
        const { operator } = node as unknown as { operator: string };
        if (operator === "??") return [`(${part("left")})`];
        return [`((${part("left")}) ${OTHER_OPERATOR[operator]} (${part("right")}))`];
      }
      case "BinaryExpression":
        return this.#binary(node);
      case "UnaryExpression":
        return node["operator"] === "!" ? [`(${part("argument")})`] : [];
      case "ConditionalExpression":
        return [`((${part("test")}) ? (${part("alternate")}) : (${part("consequent")}))`];
      case "AwaitExpression":
        return [`(${part("argument")})`];
      case "Literal":
        return typeof node["value"] === "boolean" ? [`${!node["value"]}`] : [];
      case "CallExpression":
        return this.#call(node);
      default:
        return [];
    }
  }

  #binary(node: Anything): string[] {
    const { operator } = node as unknown as { operator: string };
    const [left, right] = [node["left"], node["right"]] as [Anything, Anything];
    if (operator in OTHER_OPERATOR) {
      return [`((${this.#source(left)}) ${OTHER_OPERATOR[operator]} (${this.#source(right)}))`];
    }
    const isOne = (operator === "+" || operator === "-") && right["value"] === 1;
    return isOne ? [`(${this.#source(left)})`] : [];
  }

  #call(node: Anything): string[] {
    const callee = node["callee"] as Anything;
    const args = node["arguments"] as Anything[];
    if (callee.type === "Super" || MARKS.test(String(callee["name"]))) return [];
    const start = this.#text.slice(node.start, callee.end);
    const found: string[] = [];
    const method = callee.type === "MemberExpression" ? this.#source(callee["property"] as Node) : "";
    if (LEFT_OUT.has(method)) found.push(`(${this.#source(callee["object"] as Node)})`);
    const opposite = OPPOSITE.get(method);
    const given = args.map((each) => this.#source(each));
    if (opposite) found.push(`(${this.#source(callee["object"] as Node)}).${opposite}(${given.join(", ")})`);
    if (args.length > 1) found.push(`${start}(${given.slice(0, -1).join(", ")})`);
    return found;
  }
}

function isMark(statement: Anything): boolean {
  const call = statement["expression"] as Anything | undefined;
  const callee = call?.type === "CallExpression" ? (call["callee"] as Anything) : undefined;
  return callee?.type === "Identifier" && MARKS.test(String(callee["name"]));
}

interface Child {
  readonly child: Anything;
  readonly isFixed: boolean;
  readonly isTest: boolean;
}

const isTest = (node: Anything, name: string): boolean =>
  name === "test" && ["IfStatement", "WhileStatement", "ForStatement"].includes(node.type);

/** The parts of a node that may hold mutants, in the order of the text. Types, names and errors are left out. */
function childrenOf(node: Anything): Child[] {
  if (node.type.startsWith("TS") && !ERASED.has(node.type)) return [];
  if (node.type === "NewExpression" && ERRORS.test(String((node["callee"] as Anything)["name"]))) return [];
  const skipped = SKIPPED[node.type] ?? [];
  const fixed = FIXED[node.type] ?? [];
  const children: Child[] = [];
  for (const [name, value] of Object.entries(node)) {
    if (skipped.includes(name)) continue;
    for (const each of Array.isArray(value) ? value : [value]) {
      if (isNode(each))
        children.push({ child: each, isFixed: fixed.includes(name), isTest: isTest(node, name) });
    }
  }
  return children.sort((one, other) => one.child.start - other.child.start);
}

/** Left sides and names, which cannot be replaced by an expression. */
const SKIPPED: Readonly<Record<string, readonly string[]>> = {
  ImportDeclaration: ["specifiers", "source", "attributes"],
  ExportNamedDeclaration: ["specifiers", "source", "attributes"],
  ExportAllDeclaration: ["source", "attributes", "exported"],
  VariableDeclarator: ["id"],
  AssignmentExpression: ["left"],
  UpdateExpression: ["argument"],
  ForOfStatement: ["left"],
  ForInStatement: ["left"],
  CatchClause: ["param"],
  ObjectPattern: ["properties"],
  ArrayPattern: ["elements"],
  TemplateLiteral: ["quasis"],
  Property: ["key"],
};
/** Expressions that must stay what they are, while their parts may change. */
const FIXED: Readonly<Record<string, readonly string[]>> = {
  TaggedTemplateExpression: ["tag", "quasi"],
  ClassDeclaration: ["superClass"],
};

/** `a?.b(c).d` is one chain: a part of it in parentheses would end it early. */
function spineOf(chain: Anything): Anything[] {
  const spine: Anything[] = [];
  for (let part: unknown = chain["expression"]; isNode(part); part = part["object"] ?? part["callee"])
    spine.push(part);
  return spine;
}

function isNode(value: unknown): value is Anything {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}
