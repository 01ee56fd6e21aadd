/** What a repository of skills proposes, for a person to read before anything of it is used. */
import type { SkillFault, SkillRepositoryProposal } from '@service/client/api';
import { knownIn } from './known-values.ts';
import { counted, paint, printable, type Style } from './output.ts';

type ProposedSkill = SkillRepositoryProposal['skills'][number];
type ProposedFile = ProposedSkill['files'][number];

const looks: Readonly<Record<ProposedSkill['change'], readonly [string, Style]>> = {
  added: ['+', 'green'],
  changed: ['~', 'yellow'],
  removed: ['-', 'red'],
  unchanged: ['=', 'dim'],
  invalid: ['!', 'red'],
};

function lookOf(change: string): readonly [string, Style] {
  return knownIn(looks, change) ?? ['?', 'yellow'];
}

/** Whoever reads it decides by it what models are to be told. */
function exact(text: string, { lines = false } = {}): string {
  return printable(text, { lines, exact: true });
}

/** Each skill that would change with the differences of its files, and what is left out. */
export function describeProposal({ skills, skipped }: SkillRepositoryProposal): string {
  const unchanged = skills.filter(({ change }) => change === 'unchanged').length;
  return [
    ...skills.filter(({ change }) => change !== 'unchanged').flatMap(linesOf),
    ...(unchanged > 0 ? [paint('dim', `${counted(unchanged, 'skill')} unchanged`)] : []),
    ...skipped.map((fault) => paint('dim', `left out: ${sentenceOf(fault)}`)),
  ].join('\n');
}

function linesOf({ name, change, description, errors, files }: ProposedSkill): string[] {
  const [sign, style] = lookOf(change);
  const about = description === null ? '' : `  ${exact(description)}`;
  return [
    `${paint(style, `${sign} ${exact(name)}`)} ${change === 'invalid' ? 'is invalid, and left out' : exact(change)}`,
    ...(change === 'removed' || about === '' ? [] : [about]),
    ...errors.map((fault) => `  ${paint('red', 'error:')} ${sentenceOf(fault)}`),
    ...files.flatMap(linesOfFile),
  ];
}

function linesOfFile({ path, change, size, executable, diff }: ProposedFile): string[] {
  const [sign, style] = lookOf(change);
  const facts = [
    ...(size === null ? [] : [exact(`${size} bytes`)]),
    ...(executable ? ['a program'] : []),
  ].join(', ');
  // The first two lines name the file once more.
  const changes = diff?.trimEnd().split('\n').slice(2) ?? [];
  return [
    `  ${paint(style, `${sign} ${exact(path)}`)}  ${facts}`.trimEnd(),
    ...changes.map((line) => `    ${painted(exact(line, { lines: true }))}`),
  ];
}

function painted(line: string): string {
  if (line.startsWith('+')) return paint('green', line);
  if (line.startsWith('-')) return paint('red', line);
  return line.startsWith('@@') ? paint('cyan', line) : line;
}

function sentenceOf({ path, line, message }: SkillFault): string {
  const place = path === null ? '' : `${path}${line === null ? '' : `:${line}`}: `;
  return exact(`${place}${message}`);
}
