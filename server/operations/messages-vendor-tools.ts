/** The vendor's own tools that its clients carry out, told to models that were not trained on them. */
import type { ToolDefinition } from '../handler.ts';

/** The definition behind a type such as `bash_20250124`; null for what the vendor itself would run, and for the unknown. */
export function vendorTool(type: string): ToolDefinition | null {
  return families.find(([pattern]) => pattern.test(type))?.[1] ?? null;
}

const text = { type: 'string' };
const whole = { type: 'integer' };

function tool(
  name: string,
  description: string,
  properties: Record<string, unknown>,
  required: readonly string[],
): ToolDefinition {
  return { name, description, inputSchema: { type: 'object', properties, required } };
}

const bash = tool(
  'bash',
  'Runs a command in a shell that stays open between calls.',
  { command: text, restart: { type: 'boolean', description: 'Starts the shell anew.' } },
  [],
);

const editor = tool(
  'str_replace_based_edit_tool',
  'Views and edits files. `view` shows a file or a folder, `create` writes a file, `str_replace` replaces a text that stands there once, `insert` adds a text behind a line.',
  {
    command: { type: 'string', enum: ['view', 'create', 'str_replace', 'insert'] },
    path: text,
    file_text: { type: 'string', description: 'Of `create`.' },
    old_str: { type: 'string', description: 'Of `str_replace`.' },
    new_str: { type: 'string', description: 'Of `str_replace`.' },
    insert_line: { type: 'integer', description: 'Of `insert`.' },
    insert_text: { type: 'string', description: 'Of `insert`.' },
    view_range: { type: 'array', items: whole, description: 'Of `view`: the first and the last line.' },
  },
  ['command', 'path'],
);

const memory = tool(
  'memory',
  'Keeps notes as files below /memories that outlast the conversation.',
  {
    command: { type: 'string', enum: ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'] },
    path: text,
    file_text: { type: 'string', description: 'Of `create`.' },
    old_str: { type: 'string', description: 'Of `str_replace`.' },
    new_str: { type: 'string', description: 'Of `str_replace`.' },
    insert_line: { type: 'integer', description: 'Of `insert`.' },
    insert_text: { type: 'string', description: 'Of `insert`.' },
    old_path: { type: 'string', description: 'Of `rename`.' },
    new_path: { type: 'string', description: 'Of `rename`.' },
    view_range: { type: 'array', items: whole, description: 'Of `view`: the first and the last line.' },
  },
  ['command'],
);

const computer = tool(
  'computer',
  'Uses a screen, a mouse and a keyboard. The action says what is done; `screenshot` shows the screen.',
  {
    action: text,
    coordinate: { type: 'array', items: whole, description: 'Where, in pixels from the upper left corner.' },
    start_coordinate: { type: 'array', items: whole, description: 'Of a drag.' },
    text: { type: 'string', description: 'What is typed, or the keys that are pressed.' },
    scroll_direction: { type: 'string', enum: ['up', 'down', 'left', 'right'] },
    scroll_amount: whole,
    duration: { type: 'number', description: 'In seconds.' },
  },
  ['action'],
);

const families: readonly (readonly [RegExp, ToolDefinition])[] = [
  [/^bash_\d{8}$/, bash],
  [/^text_editor_\d{8}$/, editor],
  [/^memory_\d{8}$/, memory],
  [/^computer_\d{8}$/, computer],
];
