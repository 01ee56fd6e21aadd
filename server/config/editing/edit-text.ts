/** Edits the text of a settings file: one value is set or removed, and every other letter stays where it is. */
import { applyEdits, type Edit, type Node, parseTree } from 'jsonc-parser';
import {
  commaAfter,
  endOf,
  endOfRemarks,
  indentAt,
  lineBreakOf,
  spacesAt,
  startsLine,
} from './text-layout.ts';

/** A step into a value: the key of an object, or the index of a list. */
export type Step = string | number;

/** The text with the value at the path set; what is missing on the way is made. */
export function setInText(text: string, path: readonly Step[], value: unknown): string {
  const root = treeOf(text);
  const style = styleOf(text, root);
  if (!root) return inEmptyText(text, wrapped(value, path), style);
  const { node, depth } = nearestTo(root, path);
  const [step, ...inner] = path.slice(depth);
  return applyEdits(
    text,
    step === undefined
      ? [replacement(text, node, value, style)]
      : insertion(text, node, step, wrapped(value, inner), style),
  );
}

/** The text without the value at the path, and without the objects that would be left with nothing in them. */
export function removeFromText(text: string, path: readonly Step[]): string {
  const root = treeOf(text);
  if (!root) return text;
  const { node, depth } = nearestTo(root, path);
  return depth < path.length ? text : applyEdits(text, removal(text, outermost(text, entryOf(node))));
}

/** How the file is written by whoever writes it. */
interface Style {
  readonly lineBreak: string;
  /** What a level is indented by. */
  readonly indent: string;
}

function styleOf(text: string, root: Node | undefined): Style {
  const first = root?.children?.find(({ offset }) => startsLine(text, offset));
  const indent = first && indentAt(text, first.offset).slice(indentAt(text, root?.offset ?? 0).length);
  return { lineBreak: lineBreakOf(text), indent: indent || '  ' };
}

function treeOf(text: string): Node | undefined {
  return parseTree(text, [], { allowTrailingComma: true, allowEmptyContent: true });
}

/** The last node on the path that is there, and how many steps lead to it. */
function nearestTo(root: Node, path: readonly Step[]): { readonly node: Node; readonly depth: number } {
  let node = root;
  for (const [depth, step] of path.entries()) {
    const child = childOf(node, step);
    if (!child) return { node, depth };
    node = child;
  }
  return { node, depth: path.length };
}

function childOf(node: Node, step: Step): Node | undefined {
  if (node.type === 'array') return node.children?.[Number(step)];
  return node.children?.find(({ children }) => children?.[0]?.value === step)?.children?.[1];
}

/** The value within the objects and lists that the path still lacks. */
function wrapped(value: unknown, path: readonly Step[]): unknown {
  return path.reduceRight<unknown>(
    (inner, step) => (typeof step === 'number' ? [inner] : { [step]: inner }),
    value,
  );
}

/** There may be comments where no value is. */
function inEmptyText(text: string, value: unknown, style: Style): string {
  const before = text.trimEnd();
  return `${before}${before && style.lineBreak}${inLines(value, '', style)}${style.lineBreak}`;
}

function replacement(text: string, node: Node, value: unknown, style: Style): Edit {
  return { offset: node.offset, length: node.length, content: likeEntry(text, node, value, style) };
}

function insertion(text: string, parent: Node, step: Step, value: unknown, style: Style): Edit[] {
  const name = parent.type === 'object' ? `${JSON.stringify(step)}: ` : '';
  const last = parent.children?.at(-1);
  if (!last) return [intoEmpty(text, parent, name, value, style)];
  const comma = commaAfter(text, endOf(last));
  const separator = comma === null ? [insert(endOf(last), ',')] : [];
  const after = comma === null ? endOf(last) : comma + 1;
  const trailing = comma === null ? '' : ',';
  if (!startsLine(text, last.offset))
    return [...separator, insert(after, ` ${name}${inLine(value)}${trailing}`)];
  const indent = indentAt(text, last.offset);
  const entry = `${style.lineBreak}${indent}${name}${inLines(value, indent, style)}${trailing}`;
  return [...separator, insert(endOfRemarks(text, after), entry)];
}

function intoEmpty(text: string, parent: Node, name: string, value: unknown, style: Style): Edit {
  const start = parent.offset + 1;
  const inner = text.slice(start, endOf(parent) - 1);
  const remarks = inner.trimEnd();
  const base = indentAt(text, parent.offset);
  const indent = base + style.indent;
  const content =
    remarks || hasOwnLine(text, parent)
      ? `${style.lineBreak}${indent}${name}${inLines(value, indent, style)}${style.lineBreak}${base}`
      : ` ${name}${inLine(value)} `;
  return { offset: start + remarks.length, length: inner.length - remarks.length, content };
}

/** The outermost entry with whose removal an object would have nothing left in it, not even a remark. */
function outermost(text: string, entry: Node): Node {
  const object = entry.parent;
  if (object?.type !== 'object' || object.parent?.type !== 'property' || object.children?.length !== 1)
    return entry;
  const around = [
    text.slice(endOfName(object.parent), object.offset),
    text.slice(object.offset + 1, entry.offset),
    text.slice(endOf(entry), endOf(object) - 1),
  ];
  const isBare = around.every((gap) => !gap.replace(/[:,]/, '').trim());
  return isBare ? outermost(text, object.parent) : entry;
}

function endOfName({ offset, children }: Node): number {
  return children?.[0] ? endOf(children[0]) : offset;
}

function removal(text: string, entry: Node): Edit[] {
  const siblings = entry.parent?.children ?? [];
  const index = siblings.indexOf(entry);
  const isLast = index === siblings.length - 1;
  const comma = commaAfter(text, endOf(entry));
  const previous = siblings[index - 1];
  // Where the list of entries ended without a comma, it shall end without one again.
  const before = isLast && comma === null && previous ? commaAfter(text, endOf(previous)) : null;
  const isNextToComma = comma !== null && !text.slice(endOf(entry), comma).trim();
  const end = isNextToComma ? comma + 1 : endOf(entry);
  return [
    ...(before === null ? [] : [cut(before, before + 1)]),
    cutEntry(text, entry.offset, end, isLast),
    ...(comma === null || isNextToComma ? [] : [cut(comma, comma + 1)]),
  ];
}

/** Cuts an entry with the line that it has for itself, or with the spaces that set it apart from its neighbours. */
function cutEntry(text: string, start: number, end: number, isLast: boolean): Edit {
  const after = end + spacesAt(text, end).length;
  const [lineBreak = ''] = /^\r?\n/.exec(text.slice(after, after + 2)) ?? [];
  if (!startsLine(text, start)) {
    if (!isLast) return cut(start, after);
    const [before = ''] = /[ \t]*$/.exec(text.slice(text.lastIndexOf('\n', start) + 1, start)) ?? [];
    return cut(start - before.length, end);
  }
  return lineBreak ? cut(start - indentAt(text, start).length, after + lineBreak.length) : cut(start, after);
}

function insert(offset: number, content: string): Edit {
  return { offset, length: 0, content };
}

function cut(start: number, end: number): Edit {
  return { offset: start, length: end - start, content: '' };
}

/** What an object or a list counts as one: a value with its name, or the value alone. */
function entryOf(node: Node): Node {
  return node.parent?.type === 'property' ? node.parent : node;
}

function hasOwnLine(text: string, node: Node): boolean {
  return startsLine(text, entryOf(node).offset);
}

function likeEntry(text: string, node: Node, value: unknown, style: Style): string {
  return hasOwnLine(text, node) ? inLines(value, indentAt(text, node.offset), style) : inLine(value);
}

function inLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inLine).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, child]) => `${JSON.stringify(key)}: ${inLine(child)}`);
  return entries.length ? `{ ${entries.join(', ')} }` : '{}';
}

/** Short lists stay on one line, as people write them. */
const longestList = 80;

function inLines(value: unknown, indent: string, style: Style): string {
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return inLine(value);
  const isList = Array.isArray(value);
  const isFlat = isList && value.every((item) => typeof item !== 'object');
  if (isFlat && inLine(value).length <= longestList) return inLine(value);
  const inner = indent + style.indent;
  const entries = Object.entries(value).map(
    ([key, child]) => `${inner}${isList ? '' : `${JSON.stringify(key)}: `}${inLines(child, inner, style)}`,
  );
  const [open, close] = isList ? '[]' : '{}';
  const { lineBreak } = style;
  return `${open}${lineBreak}${entries.join(`,${lineBreak}`)}${lineBreak}${indent}${close}`;
}
