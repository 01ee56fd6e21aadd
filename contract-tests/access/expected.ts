/** The reviewed list, `access.expected`: one line an operation, written by hand and by nobody else. */
import { readFileSync } from 'node:fs';
import type { ContractOperation } from '../contract.ts';
import { callerNames } from './callers.ts';

const file = new URL('../access.expected', import.meta.url);

/** By the name of the operation; the line with the names of the columns stands under `operation`. */
export function readExpected(): Map<string, string> {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => line.trim().split(/\s+/).join(' '));
  const expected = new Map(lines.map((line) => [line.split(' ')[0] ?? '', line]));
  if (expected.size < lines.length) throw new Error('An operation has two lines in access.expected');
  return expected;
}

export const columns = ['operation', 'allow', 'scope', 'role', ...callerNames].join(' ');

/** The line of an operation, as it is. */
export function lineOf(
  { operationId, access: { allow, scope, role } }: ContractOperation,
  statuses: readonly number[],
): string {
  return [operationId, allow, scope ?? '-', role ?? '-', ...statuses].join(' ');
}
