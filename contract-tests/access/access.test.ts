/** Every operation of the contract, asked by everybody there is, on both databases: who gets what, and who learns nothing. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { operations } from '../contract.ts';
import { callerNames } from './callers.ts';
import { columns, lineOf, readExpected } from './expected.ts';
import { mixedFaults, namesSeveral, namingOne } from './foreign.ts';
import { needlessPlaces, placeFaults, placesOf } from './foreign-places.ts';
import { writePage } from './page.ts';
import { askEverybody } from './row.ts';
import { specialRequests } from './special-requests.ts';
import { needlessThings } from './things.ts';
import { openWorld, type World } from './world.ts';

const expected = readExpected();
const postgres = inject('postgresUrl');

test('the list has lines for operations of the contract alone, with a column for each caller', () => {
  const names = operations.map(({ operationId }) => operationId);
  expect([...expected.keys()].filter((name) => ![...names, 'operation'].includes(name))).toEqual([]);
  expect(expected.get('operation')).toBe(columns);
  expect(needlessThings(operations)).toEqual([]);
  const named = [...Object.keys(specialRequests), ...Object.keys(namingOne)];
  expect(named.filter((name) => !names.includes(name))).toEqual([]);
  expect(needlessPlaces(operations)).toEqual([]);
});

describe('on SQLite', () => matrix('SQLite', null));
describe.skipIf(postgres === null)('on PostgreSQL', () => matrix('PostgreSQL', postgres));

function matrix(database: string, server: string | null): void {
  const measured = new Map<string, readonly number[]>();
  let world: World;

  beforeAll(async () => {
    world = await openWorld(server);
  });
  afterAll(async () => {
    await world?.stop();
    if (measured.size < operations.length) return;
    const cells = operations.length * callerNames.length;
    console.log(
      `Access on ${database}: ${operations.length} operations × ${callerNames.length} callers = ${cells} cells`,
    );
    await writePage(measured);
  });

  test.each(operations)('$operationId answers everybody as it should', async (operation) => {
    const { statuses, faults } = await askEverybody(world, operation);
    measured.set(operation.operationId, statuses);
    expect(faults).toEqual([]);
    const line = lineOf(operation, statuses);
    const due = expected.get(operation.operationId);
    const advice = `Think over each column, then write the line into contract-tests/access.expected:\n${line}\n`;
    expect(line, due === undefined ? advice : 'by contract-tests/access.expected').toBe(due);
  });

  test.each(operations.filter(namesSeveral))(
    'an id of another organization in a request to $operationId names nothing',
    async (operation) => {
      expect(await mixedFaults(world, operation)).toEqual([]);
    },
  );

  test.each(operations.filter((operation) => placesOf(operation).length > 0))(
    'what belongs to others is nothing to $operationId, wherever it is named',
    async (operation) => {
      expect(await placeFaults(world, operation)).toEqual([]);
    },
  );
}
