/* Whether this processor has the instructions of x86-64-v3 that compilers make use of. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *has_x86_64_v3(PyObject *self, PyObject *unused) {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    return PyBool_FromLong(
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"));
#else
    return PyBool_FromLong(0);
#endif
}

static PyMethodDef methods[] = {{"has_x86_64_v3", has_x86_64_v3, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_processor", NULL, 0, methods};

PyMODINIT_FUNC PyInit__processor(void) { return PyModuleDef_Init(&definition); }
