// The list of built-in tools and the two that talk to people.
import { describe, expect, test } from 'vitest';
import { sandboxHere } from '../processes/test-sandbox.ts';
import { askUserTool } from './ask-user.ts';
import { callTool, TOOL_OPTIONS, testWorkspace, toolNamed } from './test-workspace.ts';
import { todosTool } from './todos.ts';
import type { Question } from './tool.ts';
import { builtInTools } from './tools.ts';

const NAMES = [
  ...['view', 'ls', 'glob', 'grep', 'edit', 'multiedit', 'write'],
  ...['bash', 'job_output', 'job_kill', 'fetch', 'download', 'web_search', 'ask_user', 'todos', 'plan'],
  ...['memory_save', 'memory_search', 'agent'],
];
const COMMANDS = ['bash', 'job_output', 'job_kill'];
const found = await sandboxHere();

describe('the list', () => {
  test('has tools whose schemas are closed objects', () => {
    const tools = builtInTools(TOOL_OPTIONS);
    expect(tools.map((tool) => tool.name)).toEqual(NAMES);
    for (const tool of tools) {
      expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(tool.inputSchema).not.toHaveProperty('$schema');
      expect(tool.description.length).toBeGreaterThan(50);
    }
    expect(tools.filter((tool) => tool.needsPermission).map((tool) => tool.name)).toEqual([
      'edit',
      'multiedit',
      'write',
      'bash',
      'fetch',
      'download',
      'web_search',
      'memory_save',
    ]);
    expect(toolNamed(tools, 'view').inputSchema.required).toEqual(['file_path']);
  });

  test('has no bash where a sandbox is required and none works', () => {
    const tools = builtInTools({ ...TOOL_OPTIONS, requireSandbox: true });
    expect(tools.map((tool) => tool.name)).toEqual(NAMES.filter((name) => !COMMANDS.includes(name)));
  });

  test.skipIf('unavailable' in found)(
    'has bash where a sandbox is required and works (needs bubblewrap)',
    () => {
      const tools = builtInTools({ ...TOOL_OPTIONS, requireSandbox: true, sandbox: found });
      expect(toolNamed(tools, 'bash').description).toContain('sandbox');
    },
  );

  test('leaves out what is disabled', () => {
    const tools = builtInTools({ ...TOOL_OPTIONS, disabled: ['bash', 'todos'] });
    expect(tools.map((tool) => tool.name)).toEqual(
      NAMES.filter((name) => name !== 'bash' && name !== 'todos'),
    );
  });
});

describe('ask_user', () => {
  const tool = askUserTool();
  const yesNo = { id: 'q1', type: 'yes_no', text: 'Go on?' };
  const choices = [
    { id: 'a', label: 'Apples' },
    { id: 'b', label: 'Bananas' },
  ];

  test('passes the questions on and returns the answers as text', async () => {
    let asked: readonly Question[] = [];
    const context = testWorkspace().context({
      ask: async (questions) => {
        asked = questions;
        return {
          status: 'answered',
          answers: [
            { question_id: 'q1', yes: false },
            { question_id: 'q2', selected_ids: ['b'], fill_in_text: 'or pears', notes: { b: 'ripe' } },
          ],
        };
      },
    });
    const questions = [
      yesNo,
      { id: 'q2', type: 'multi_choice', text: 'Which?', choices },
      { id: 'q3', type: 'free_text', text: 'Why?' },
    ];
    const output = await callTool(tool, { questions }, context);
    expect(asked).toEqual(questions);
    expect(output.content).toBe(
      'Go on?\n  No\n\nWhich?\n  Bananas [b] (ripe)\n  or pears\n\nWhy?\n  (not answered)',
    );
  });

  test('a declined or unanswered question is a normal result', async () => {
    const declined = await callTool(tool, { questions: [yesNo] }, testWorkspace().context());
    expect(declined).toMatchObject({ is_error: false, content: expect.stringContaining('declined') });
    const context = testWorkspace().context({ ask: async () => ({ status: 'expired' }) });
    expect((await callTool(tool, { questions: [yesNo] }, context)).content).toContain('in time');
    const withdrawn = testWorkspace().context({ ask: async () => ({ status: 'cancelled' }) });
    expect((await callTool(tool, { questions: [yesNo] }, withdrawn)).is_error).toBe(false);
  });

  test.each([
    ['no question', []],
    ['six questions', Array.from({ length: 6 }, (_, index) => ({ ...yesNo, id: `q${index}` }))],
    ['two questions of one id', [yesNo, yesNo]],
    ['an unknown type', [{ ...yesNo, type: 'maybe' }]],
    ['a text of 241 characters', [{ ...yesNo, text: 'x'.repeat(241) }]],
    ['a description of 601 characters', [{ ...yesNo, description: 'x'.repeat(601) }]],
    ['a choice without choices', [{ ...yesNo, type: 'single_choice' }]],
    ['one choice', [{ ...yesNo, type: 'single_choice', choices: choices.slice(1) }]],
    [
      'six choices',
      [{ ...yesNo, type: 'single_choice', choices: 'abcdef'.split('').map((id) => ({ id, label: id })) }],
    ],
    ['two choices of one id', [{ ...yesNo, type: 'multi_choice', choices: [choices[0], choices[0]] }]],
    [
      'a label of 201 characters',
      [{ ...yesNo, type: 'multi_choice', choices: [choices[0], { id: 'c', label: 'x'.repeat(201) }] }],
    ],
    ['choices of a yes or no', [{ ...yesNo, choices }]],
  ])('%s is refused', async (_case, questions) => {
    await expect(tool.prepare({ questions }, testWorkspace().context())).rejects.toThrow(/Wrong input/);
  });
});

describe('todos', () => {
  const tool = todosTool();
  const item = (status: string) => ({ content: 'Run the tests', status, active_form: 'Running the tests' });

  test('replaces the list', async () => {
    const workspace = testWorkspace();
    const todos = [item('completed'), item('in_progress'), item('pending')];
    const output = await callTool(tool, { todos }, workspace.context());
    expect(output.content).toBe('The list has 1 completed, 1 in progress, 1 pending.');
    expect(workspace.todos).toEqual(todos);
  });

  test('two tasks in progress, an unknown status and an empty task are refused', async () => {
    const context = testWorkspace().context();
    for (const todos of [
      [item('in_progress'), item('in_progress')],
      [item('doing')],
      [{ ...item('pending'), content: '' }],
    ]) {
      await expect(tool.prepare({ todos }, context)).rejects.toThrow(/Wrong input/);
    }
  });
});
