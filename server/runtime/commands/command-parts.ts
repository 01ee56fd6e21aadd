/** Takes a shell command apart: every command that it could run and every file that it redirects, as far as words tell. */
import {
  type Assignment,
  type Command,
  forEachChild,
  parse,
  type Redirect,
  type SyntaxNode,
  type WordPart,
} from 'unbash';
import { valuesOf } from './assigned-values.ts';
import { isPlainArithmetic } from './builtin-effect.ts';
import { meaningOf } from './command-meaning.ts';
import {
  anyWords,
  assignmentWord,
  type CommandWord,
  hidesExpansion,
  known,
  wordOf,
} from './command-words.ts';
import { isHarmlessForCommand, isHarmlessName } from './harmless-variables.ts';
import { asksAboutFile, comparesFiles } from './test-commands.ts';
import type { OptionWrite } from './writing-options.ts';

/** One command, or one redirected file, of a command line. */
export interface CommandPart {
  /** A file that is read or written has one word: its name. */
  readonly kind: 'command' | 'read' | 'write';
  readonly words: readonly CommandWord[];
  /** All that is compared with what is denied: the words also without what wraps them. */
  readonly readings: readonly (readonly CommandWord[])[];
  /** Why no pattern can cover it, as part of a sentence. */
  readonly obscure: string | null;
  /** Whether it may turn out to be any command. */
  readonly anything: boolean;
  /** The files that it may write by one of its options, which a pattern for it need not have meant. */
  readonly writes: readonly OptionWrite[];
  /** Those that it may write so in any of its readings: also what another program starts writes. */
  readonly written: readonly CommandWord[];
  /** Whether its input comes from another command, a file or a here-document: then that decides what it does, too. */
  readonly fed: boolean;
  /** Set where it stands in a script that another command is given, which may run that in a folder of its own. */
  readonly inScript?: true;
  /**
   * Set where git works with another repository than the workspace's: what it runs there may be any command by an alias, and
   * what it starts besides stands in settings that nobody guards.
   */
  readonly elsewhere?: 'a command of git' | 'any command';
}

/** A command line taken apart. */
export interface ParsedCommand {
  readonly parts: readonly CommandPart[];
  /** Why the whole cannot be told from its words. */
  readonly obscure: string | null;
  /** Whether there may be commands in it that are not among the parts. */
  readonly anything: boolean;
  /** The variables that it sets for what follows, by statements of their own. */
  readonly sets: readonly string[];
  /** Whether a command in it changes the folder that paths start from. */
  readonly movesAbout: boolean;
}

/** Larger ones no person reads either before allowing them. */
const longestCommand = 20_000;
const mostNodes = 20_000;
const deepestNesting = 100;

/** Never throws: what cannot be read is obscure. */
export function commandParts(command: string): ParsedCommand {
  const reader = new CommandReader();
  reader.readScript(command, false, 0);
  const { parts, sets, obscure, anything } = reader;
  const movesAbout = parts.some(({ readings }) => readings.some(([name]) => moves.test(name?.text ?? '')));
  return { parts, sets, obscure, anything, movesAbout };
}

const computes = 'it computes with values that could hold commands';
const moves = /^(cd|pushd|popd)$/;
/** Shells disagree about what these are: a blank, a part of a word, or nothing; and people do not see them. */
const ambiguous = /[\p{Cc}\p{Cf}\p{Z}]/u;
const usual = /[ \t\n]/g;

/** Where in a command a node stands. */
interface Place {
  readonly fed: boolean;
  readonly depth: number;
  readonly inScript: boolean;
  readonly source: Source;
}

/** A text that positions count in, and where in it here-documents stand. */
interface Source {
  readonly text: string;
  readonly bodies: (readonly [start: number, end: number])[];
}

class CommandReader {
  readonly parts: CommandPart[] = [];
  readonly sets: string[] = [];
  obscure: string | null = null;
  anything = false;
  private nodes = 0;

  readScript(script: string, fed: boolean, depth: number): void {
    if (script.length > longestCommand) {
      this.lose('it is too long');
      return;
    }
    if (!script.isWellFormed() || ambiguous.test(script.replace(usual, ''))) {
      this.lose('it holds characters that cannot be seen');
      return;
    }
    try {
      this.visit(parse(script), { fed, depth, inScript: depth > 0, source: { text: script, bodies: [] } });
    } catch (error) {
      // A defect of the parser must not let a command through, nor end the run.
      this.lose(`it cannot be read (${error instanceof Error ? error.name : 'unknown'})`);
    }
  }

  /** From here on there may be commands that are not among the parts. */
  private lose(why: string): void {
    this.blur(why);
    this.anything = true;
  }

  private blur(why: string): void {
    this.obscure ??= why;
  }

  private visit(node: SyntaxNode, place: Place): void {
    this.nodes += 1;
    if (this.nodes > mostNodes || place.depth > deepestNesting) {
      this.lose('it is too complicated');
      return;
    }
    this.judge(node, place);
    const below = inside(node, place);
    if (node.type === 'Command') this.readCommand(node, below);
    if (node.type === 'Redirect') this.readRedirect(node, below);
    if (node.type === 'TestUnary' || node.type === 'TestBinary') this.readTest(node);
    if (node.type === 'HereDoc')
      place.source.bodies.push([node.body.pos, node.closing?.end ?? node.body.end]);
    if (node.type === 'Pipeline') {
      node.commands.forEach((command, index) => {
        this.visit(command, { ...below, fed: below.fed || index > 0 });
      });
      return;
    }
    forEachChild(node, (child) => {
      this.visit(child, below);
    });
    if ((node.type === 'Script' || node.type === 'CompoundList') && skipsText(node, below.source))
      this.lose('the shell would not read it as it stands');
  }

  private readCommand(node: Command, { fed, depth, inScript }: Place): void {
    const assignments = node.prefix.filter((part) => part.type === 'Assignment');
    if (!node.name) {
      for (const one of assignments) this.assign(one, inScript);
      return;
    }
    const kept = assignments
      .filter((one) => !isHarmlessForCommand(one.name, wordOf(one)))
      .map(assignmentWord);
    const { scripts, ...meaning } = meaningOf(kept, [node.name, ...node.args].map(wordOf));
    this.parts.push({ kind: 'command', ...meaning, fed, ...(inScript && { inScript }) });
    for (const script of scripts) this.readScript(script, fed, depth + 1);
  }

  /** What `[[` asks about files; `test` and `[` are commands like others. */
  private readTest(node: Extract<SyntaxNode, { type: 'TestUnary' | 'TestBinary' }>): void {
    const asks = node.type === 'TestUnary' ? asksAboutFile(node.operator) : comparesFiles(node.operator);
    if (!asks) return;
    const operator = known(node.operator);
    const asked =
      node.type === 'TestUnary'
        ? [operator, wordOf(node.operand)]
        : [wordOf(node.left), operator, wordOf(node.right)];
    this.push('command', [known('[['), ...asked]);
  }

  private readRedirect(node: Redirect, { inScript }: Place): void {
    if (node.descriptor?.type === 'FileDescriptorVariable') {
      const why = 'it keeps a file open under a variable';
      if (/^\w+$/.test(node.descriptor.name)) this.blur(why);
      else this.lose(why);
    }
    const target = node.target ? wordOf(node.target) : anyWords;
    const copies = node.operator === '>&' || node.operator === '<&';
    if (copies && target.text !== null && /^(\d+-?|-)$/.test(target.text)) return;
    if (target.text !== null && sinks.has(target.text)) return;
    if (target.text?.startsWith('/dev/tcp/') || target.text?.startsWith('/dev/udp/'))
      this.blur('it opens a connection');
    const reads = node.operator === '<' || node.operator === '<&';
    for (const kind of node.operator === '<>'
      ? (['read', 'write'] as const)
      : ([reads ? 'read' : 'write'] as const))
      this.push(kind, [target], inScript);
  }

  /** What it sets the variable to may be run later: a part that nothing covers is compared with what is denied. */
  private assign(assignment: Assignment, inScript: boolean): void {
    const { name } = assignment;
    this.setVariable(name);
    const word = assignmentWord(assignment);
    const { readings, anything } = isHarmlessName(name) ? valuesOf([]) : valuesOf([word]);
    if (anything) this.lose(`it sets ${name} for what follows`);
    if (readings.length > 0) this.push('command', [word], inScript, readings);
  }

  private setVariable(name: string): void {
    this.sets.push(name);
    if (name === 'POSIXLY_CORRECT') this.lose('the shell would read the rest differently');
    if (!isHarmlessName(name)) this.blur(`it sets ${name} for what follows`);
  }

  /** A part that is just these words. */
  private push(
    kind: CommandPart['kind'],
    words: readonly CommandWord[],
    inScript = false,
    others: CommandPart['readings'] = [],
  ): void {
    this.parts.push({
      kind,
      words,
      readings: [words, ...others],
      obscure: null,
      anything: false,
      writes: [],
      written: [],
      fed: false,
      ...(inScript && { inScript }),
    });
  }

  /** What no list of commands can tell. */
  private judge(node: SyntaxNode, { inScript }: Place): void {
    switch (node.type) {
      case 'Script':
        if (node.errors && node.errors.length > 0) this.lose('the shell would not read it as it stands');
        break;
      case 'CommandExpansion':
      case 'ProcessSubstitution':
      case 'ArithmeticCommandExpansion':
        if (!node.script) this.lose('a substitution in it cannot be read');
        break;
      case 'Function':
        this.blur('it defines a function, whose name then means something else');
        break;
      case 'Coproc':
        this.blur('it starts a coprocess');
        break;
      case 'For':
      case 'Select':
        this.setVariable(node.name.value);
        break;
      case 'Assignment':
        if (node.index) {
          const why = 'it counts on an index that is only known when it runs';
          if (/^\d+$/.test(node.index.text)) this.blur(why);
          else this.lose(why);
        }
        if (node.value.type === 'ArrayValue' && node.value.elements.some(({ text }) => text.startsWith('[')))
          this.lose('an index in it is computed when it runs, and could hold commands');
        break;
      case 'ExtendedGlob':
        this.blur('it holds a pattern that shells read differently');
        break;
      case 'Word':
        if (hidesExpansion(node)) this.lose('an expansion in it cannot be read');
        break;
      case 'ParameterExpansion':
        // The parser ends such a one at the first brace, though that stands in the command.
        if (/[<>]\(/.test(node.text)) this.lose('a substitution in it cannot be read');
        if (evaluates(node)) this.lose(computes);
        break;
      case 'DoubleQuoted':
      case 'LocaleString':
        // To a shell that is not bash, or is as POSIX has it, each quote in there is a letter.
        if (node.parts.some((part) => quotesInExpansion(part) && (inScript || part.text.includes("$'"))))
          this.lose('it holds quotes within quotes that shells read differently');
        break;
      case 'HereDoc':
        if (!node.closing) this.lose('a here-document in it does not end');
        if (!node.delimiter?.quoted && node.body?.parts?.some(quotesInExpansion))
          this.lose('its here-document holds quotes that shells read differently');
        break;
      default:
        if (evaluates(node)) this.lose(computes);
    }
  }
}

function inside(node: SyntaxNode, { fed, depth, inScript, source }: Place): Place {
  const own = node.type === 'Script' ? node.source : undefined;
  return {
    fed: fed || feeds(node),
    depth: depth + 1,
    inScript,
    source: own === undefined ? source : { text: own, bodies: [] },
  };
}

/** The parser goes on behind what it does not understand, sometimes without a word: what it has left out is looked for. */
function skipsText(list: Extract<SyntaxNode, { type: 'Script' | 'CompoundList' }>, source: Source): boolean {
  const covered = [...list.commands.map(({ pos, end }) => [pos, end] as const), ...source.bodies];
  let left = '';
  let at = list.pos;
  for (const [start, end] of covered.toSorted(([a], [b]) => a - b)) {
    if (start >= list.end) break;
    left += `${source.text.slice(at, Math.max(start, at))}\n`;
    at = Math.max(at, end);
  }
  left += source.text.slice(at, list.end);
  return !/^(?:[\s;&]|\\\n|#[^\n]*(?:\n|$))*$/.test(left);
}

const sinks = new Set(['/dev/null', '/dev/stdout', '/dev/stderr', '/dev/stdin']);

/** Whether the commands below this node read what something else gives them. */
function feeds(node: SyntaxNode): boolean {
  switch (node.type) {
    case 'Command':
    case 'Redirected':
      return node.redirects.some(
        (one) =>
          one.type !== 'Redirect' || one.operator === '<' || one.operator === '<>' || one.operator === '<&',
      );
    case 'ProcessSubstitution':
      return node.operator === '>';
    case 'Coproc':
      return true;
    default:
      return false;
  }
}

/** In a here-document a quote inside of `${…}` is a letter like others, which the parser takes for the beginning of a quoted text. */
function quotesInExpansion({ type, text }: WordPart): boolean {
  return type === 'ParameterExpansion' && text.includes("'");
}

/** In arithmetic and in an index, the value of a variable is read as an expression, and that may hold `$(…)`. */
function evaluates(node: SyntaxNode): boolean {
  switch (node.type) {
    case 'ArithmeticExpansion':
      return !/^\$?[[(]+[\d\s+*/%<>=!&|^~?:()-]*[\])]+$/.test(node.text);
    case 'ArithmeticCommand':
      return !isPlainArithmetic(node.body);
    case 'ArithmeticFor':
    case 'ArithmeticCommandExpansion':
      return true;
    case 'ParameterExpansion':
      return (
        (node.prefix === '!' && node.parameter !== '') ||
        (node.index !== undefined && !/^(@|\*|\d+)$/.test(node.index.text)) ||
        expandsFurther(node.operation)
      );
    case 'TestUnary':
      return node.operator === '-v' || node.operator === '-R';
    case 'TestBinary':
      return (
        /^-(eq|ne|lt|le|gt|ge)$/.test(node.operator) &&
        ![node.left, node.right].every(({ text }) => /^-?\d+$/.test(text))
      );
    default:
      return false;
  }
}

function expandsFurther(
  operation: Extract<SyntaxNode, { type: 'ParameterExpansion' }>['operation'],
): boolean {
  switch (operation?.type) {
    case 'Transform':
    case 'Unknown':
      return true;
    case 'Slice':
      return ![operation.offset, operation.length].every((word) => !word || /^\s*-?\d*$/.test(word.text));
    case 'Default':
      return operation.operator === '=' || operation.operator === ':=';
    default:
      return false;
  }
}
