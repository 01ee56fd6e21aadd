/** Variables in settings: what is replaced, what is refused, and that no value leaks. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these templates are not JavaScript's.
import { describe, expect, test } from 'vitest';
import { ExpansionError, expandVariables } from './variables.ts';

const environment = {
  NAME: 'value',
  OTHER: 'other',
  EMPTY: '',
  NESTED: '$NAME ${NAME} $(whoami)',
  SERVICE_MASTER_KEY: 'master-secret',
};

describe('what is replaced', () => {
  test.each([
    ['plain', 'plain'],
    ['', ''],
    ['$NAME', 'value'],
    ['a$NAME.b', 'avalue.b'],
    ['${NAME}', 'value'],
    ['${NAME}${OTHER}x', 'valueotherx'],
    ['$NAMES', ''],
    ['${UNSET}', ''],
    ['[$UNSET]', '[]'],
    ['${NAME:-default}', 'value'],
    ['${UNSET:-default}', 'default'],
    ['${EMPTY:-default}', 'default'],
    ['${UNSET:-}', ''],
    ['${UNSET:-a$OTHER}', 'aother'],
    ['${UNSET:-${EMPTY:-${NAME}}}', 'value'],
    ['${UNSET:-http://127.0.0.1:8000/v1}', 'http://127.0.0.1:8000/v1'],
    ['${NAME:?must be set}', 'value'],
    ['${NAME:-${UNSET:?not needed here}}', 'value'],
    ['\\$NAME', '$NAME'],
    ['a\\b', 'a\\b'],
    ['}{', '}{'],
  ])('%j becomes %j', (template, expanded) => {
    expect(expandVariables(template, environment)).toBe(expanded);
  });

  test('what a variable holds is not read again', () => {
    expect(expandVariables('$NESTED', environment)).toBe('$NAME ${NAME} $(whoami)');
  });

  test('names that every object has are not variables', () => {
    expect(expandVariables('$constructor$__proto__$toString', environment)).toBe('');
  });
});

describe('the service’s own variables', () => {
  test.each(['$SERVICE_MASTER_KEY', '${SERVICE_MASTER_KEY}', '$service_master_key'])(
    '%s is not set',
    (template) => {
      expect(expandVariables(template, { ...environment, service_master_key: 'secret' })).toBe('');
    },
  );

  test('they do not satisfy a demand, and are no obstacle to a default', () => {
    expect(expandVariables('${SERVICE_MASTER_KEY:-none}', environment)).toBe('none');
    expect(() => expandVariables('${SERVICE_MASTER_KEY:?}', environment)).toThrow('is not set');
  });
});

describe('what is refused', () => {
  test('a demanded variable that is not set, with the template and its message', () => {
    expect(() => expandVariables('Bearer $NAME ${UNSET:?set it in your shell}', environment)).toThrow(
      'The variable UNSET is not set, which "Bearer $NAME ${UNSET:?set it in your shell}" demands. Set it.',
    );
    expect(() => expandVariables('${EMPTY:?}', environment)).toThrow(ExpansionError);
  });

  test.each(['$(cat key)', 'x$(cat key)', '${NAME:-$(cat key)}'])(
    'the command in %j, which is never run',
    (template) => {
      expect(() => expandVariables(template, environment)).toThrow(
        `Commands are not run in this version, so ${JSON.stringify(template)} has no value`,
      );
    },
  );

  test.each([
    ['pa$$word', 'stands alone'],
    ['cost: 5$', 'stands alone'],
    ['$1', 'stands alone'],
    ['se${cret', 'comes "}"'],
    ['se${}cret', 'comes the name'],
    ['${NAME', 'comes "}"'],
    ['${NAME:+x}', 'comes "}"'],
    ['${NAME-x}', 'comes "}"'],
    ['${UNSET:-x', 'never closed'],
  ])('%j, without being shown: it may be a secret', (template, reason) => {
    expect(() => expandVariables(template, environment)).toThrow(reason);
    expect(() => expandVariables(template, environment)).not.toThrow(template);
  });

  test('no message ever holds the value of a variable', () => {
    for (const template of ['$NAME ${UNSET:?}', '${NAME}$(x)', '$NAME $', '${UNSET:?$NAME}']) {
      expect(() => expandVariables(template, environment)).toThrow(ExpansionError);
      expect(messageOf(() => expandVariables(template, { ...environment, NAME: 'hunter2' }))).not.toContain(
        'hunter2',
      );
    }
  });

  test('a long template is cut, and its control characters are gone', () => {
    const message = messageOf(() => expandVariables(`\u001b[31m${'x'.repeat(2000)}$(y)`, environment));
    expect(message.length).toBeLessThan(700);
    expect(message).not.toContain('\u001b');
  });
});

function messageOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  throw new Error('nothing was refused');
}
