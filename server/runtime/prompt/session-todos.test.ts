/** The list of what is to do, as the calls that are stored have left it. */
import { expect, test } from 'vitest';
import { todosOf } from './session-todos.ts';

test('a call that fails takes no list back that another of the same id has left', () => {
  const todo = { content: 'Look', active_form: 'Looking', status: 'pending' as const };
  const turn = (name: string, input: object, is_error: boolean) => [
    { parts: [{ type: 'tool_use' as const, id: 'call_0', name, input: { ...input } }] },
    { parts: [{ type: 'tool_result' as const, tool_use_id: 'call_0', name, content: '', is_error }] },
  ];
  const listed = turn('todos', { todos: [todo] }, false);
  expect(todosOf([...listed, ...turn('bash', {}, true)])).toEqual([todo]);
  expect(todosOf([...listed, ...turn('todos', { todos: [] }, true)])).toEqual([todo]);
  expect(todosOf([...listed, ...turn('todos', { todos: [] }, false)])).toEqual([]);
  expect(todosOf(turn('todos', { todos: 'many' }, false))).toBeNull();
});
