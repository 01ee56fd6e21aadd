/** Reads the tools of a Messages request: they are the client's, whatever their names, and never run here. */
import type { CreateMessageRequest, MessagesBlockParam, MessagesTool } from '../contract/api.ts';
import type { AnswerTerms, ToolDefinition } from '../handler.ts';
import { refusal, required } from './messages-refusal.ts';
import { vendorTool } from './messages-vendor-tools.ts';

type Asked = Pick<CreateMessageRequest, 'tools' | 'tool_choice' | 'messages'>;

/** A block that adds a tool in the middle of the conversation, or takes one away. */
interface ToolChange {
  readonly block: MessagesBlockParam;
  readonly place: string;
}

/** Those that any model can be told of. `earlier` are changes that the request does not repeat. Throws Problem. */
export function toolsOf(
  { tools, messages }: Pick<Asked, 'tools' | 'messages'>,
  earlier: readonly MessagesBlockParam[] = [],
): readonly ToolDefinition[] {
  const known = new Map<string, ToolDefinition>();
  const offered = new Set<string>();
  const add = (tool: MessagesTool, place: string) => {
    for (const definition of definitionOf(tool, place)) {
      const { name } = definition;
      if (offered.has(name)) throw refusal('/tools', `two tools are called ${name}`, 'uniqueItems');
      known.set(name, definition);
      offered.add(name);
    }
  };
  for (const [index, tool] of (tools ?? []).entries()) add(tool, `/tools/${index}`);
  const before = earlier.map((block) => ({ block, place: '/thread' }));
  for (const { block, place } of [...before, ...toolChanges(messages)]) {
    const { definition, name } = changedTool(block);
    if (block.type === 'tool_removal') offered.delete(name ?? '');
    else if (definition) add(definition, `${place}/tool/definition`);
    else if (name !== undefined && known.has(name)) offered.add(name);
  }
  return [...known.values()].filter(({ name }) => offered.has(name));
}

/** The blocks of a conversation that change what tools there are. */
export function toolChanges(messages: Asked['messages']): readonly ToolChange[] {
  return messages.flatMap(({ content }, at) => {
    if (!Array.isArray(content)) return [];
    const blocks = content.map((block, index) => ({ block, place: `/messages/${at}/content/${index}` }));
    return blocks.filter(({ block: { type } }) => type === 'tool_addition' || type === 'tool_removal');
  });
}

/** Whether the model has to call one of them, and how many at once. */
export function choiceOf(
  { tool_choice: choice, tools: given }: Asked,
  tools: readonly ToolDefinition[],
): Pick<AnswerTerms, 'toolChoice' | 'oneToolAtMost'> {
  if (!choice) return {};
  const asked = choice.type === 'tool' ? named(choice.name, given ?? [], tools) : choices[choice.type];
  if (tools.length === 0) return {};
  return {
    ...(asked && { toolChoice: asked }),
    ...(choice.disable_parallel_tool_use && { oneToolAtMost: true }),
  };
}

const choices = { auto: 'auto', any: 'required', none: 'none' } as const;

/** Null for a tool that the vendor runs: no other model has it, and to the vendor's own the choice is passed on as it is. */
function named(
  name: string | undefined,
  given: readonly MessagesTool[],
  tools: readonly ToolDefinition[],
): { readonly tool: string } | null {
  const tool = required(name, '/tool_choice/name');
  if (tools.some((one) => one.name === tool)) return { tool };
  // A toolset is given without the names of what it holds.
  if (given.some((one) => one.name === tool || one.name === undefined)) return null;
  throw refusal('/tool_choice/name', `the request brings no tool ${JSON.stringify(tool)}`, 'enum');
}

/** The tool that a block brings, or the name of one that is known. */
function changedTool(block: MessagesBlockParam): {
  readonly definition?: MessagesTool;
  readonly name?: string;
} {
  const tool: unknown = Reflect.get(block, 'tool');
  if (typeof tool !== 'object' || tool === null) return {};
  if ('definition' in tool) return { definition: tool.definition as MessagesTool }; // read with the care of any other
  return 'name' in tool && typeof tool.name === 'string' ? { name: tool.name } : {};
}

function definitionOf(tool: MessagesTool, place: string): readonly ToolDefinition[] {
  const { type, name, description, input_schema: inputSchema } = tool;
  if (type !== undefined && type !== null && type !== 'custom') {
    const known = vendorTool(type);
    return known ? [{ ...known, ...(name && { name }) }] : [];
  }
  return [
    {
      name: required(name, `${place}/name`),
      description: description ?? '',
      inputSchema: { ...required(inputSchema, `${place}/input_schema`) },
    },
  ];
}
