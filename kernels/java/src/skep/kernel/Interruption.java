package skep.kernel;

import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.Label;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.LabelTarget;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.util.HashSet;
import java.util.Set;

/**
 * Ends a cell from outside. A thread cannot be stopped in Java, so every jump backwards in the user's code, which is every turn of
 * every loop, first asks here whether to go on. Code that waits is woken by an ordinary interrupt.
 */
public final class Interruption {
    private static volatile Thread stopping;

    private Interruption() {}

    /** Thrown in the cell that shall end. Not an Exception, so that fewer cells catch it. */
    static final class Stop extends Error {
        private static final long serialVersionUID = 1;

        Stop() {
            super("the cell was interrupted", null, false, false);
        }
    }

    /** Called by the user's loops. */
    public static void check() {
        if (stopping != null && stopping == Thread.currentThread()) {
            throw new Stop();
        }
    }

    /** From now on {@code thread} ends what it does. */
    static void stop(Thread thread) {
        stopping = thread;
        thread.interrupt();
    }

    /** The cell has ended, and its thread may go on. */
    static void clear() {
        stopping = null;
        Thread.interrupted();
    }

    /** The class with questions in its loops. */
    static byte[] instrument(byte[] bytecodes) {
        ClassFile format = ClassFile.of();
        return format.transformClass(
                format.parse(bytecodes), ClassTransform.transformingMethodBodies(CodeTransform.ofStateful(Questions::new)));
    }

    private static final class Questions implements CodeTransform {
        private static final ClassDesc HERE = ClassDesc.of(Interruption.class.getName());
        private static final MethodTypeDesc NOTHING = MethodTypeDesc.of(ConstantDescs.CD_void);
        private final Set<Label> passed = new HashSet<>();

        @Override
        public void accept(CodeBuilder builder, CodeElement element) {
            if (element instanceof LabelTarget target) {
                passed.add(target.label());
            }
            if (element instanceof BranchInstruction branch && passed.contains(branch.target())) {
                builder.invokestatic(HERE, "check", NOTHING);
            }
            builder.with(element);
        }
    }
}
